import { blocksWrites, type Lock } from "./measure-locks.js";

/** Breaks the version before, unless no version that may still run uses what is removed or changed. */
const CONTRACTS =
  /\b(DROP (TABLE|COLUMN|TYPE|FUNCTION|TRIGGER|CONSTRAINT|DEFAULT|VIEW|INDEX)|RENAME|CREATE OR REPLACE|SET NOT NULL|ALTER COLUMN \S+ (SET DATA )?TYPE|ADD (CONSTRAINT \S+ )?CHECK)\b.*/gi;
/** Changes rows, and keeps them locked until the end of the migration. */
const CHANGES_ROWS = /^(UPDATE|DELETE|INSERT|WITH|TRUNCATE|DO)\b.*/gim;
/** Ends the transaction in which the migration runs, so that it could be applied in part. */
const CONTROLS_TRANSACTION = /^\s*(BEGIN|START TRANSACTION|COMMIT|END|ROLLBACK|ABORT)\s*;/gim;
const IS_CONTRACT = /^-- Contract: \S/m;

/**
 * Returns what in a migration would make requests fail or wait, with what to do instead (see CONTRIBUTING.md, "Add a
 * migration"). `locks` are the measured ones.
 */
export function findViolations(script: string, locks: Lock[]): string[] {
  const blocking = locks.filter(blocksWrites);
  const blockedTables = new Set(blocking.map(({ table }) => table));
  const working = blocking.filter(({ work }) => work);
  const sql = script.replace(/--.*/g, "");
  const contracts = IS_CONTRACT.test(script) ? [] : (sql.match(CONTRACTS) ?? []);
  return [
    ...working.map(
      ({ table, work }) =>
        `${work} ${table} while writes wait: build an index CONCURRENTLY, add a constraint NOT VALID, add a column without a default that is computed per row`,
    ),
    ...(blockedTables.size > 1
      ? [`makes writes wait on ${[...blockedTables].join(" and ")}: split it into one migration per table`]
      : []),
    ...contracts.map(
      (text) =>
        `breaks the version before: ${text}. Do so one version after the code has stopped using it, with a comment "-- Contract: unused since VERSION"`,
    ),
    ...(sql.match(CHANGES_ROWS) ?? []).map((text) => `changes rows: ${text}. Let the service do so, in batches`),
    ...(sql.match(CONTROLS_TRANSACTION) ?? []).map((text) => `may be applied in part: remove ${text.trim()}`),
  ];
}
