import { blocksWrites } from "./measure-locks.js";
import type { Statement } from "./script.js";

/** Breaks the version before, unless no version that may still run uses what is removed or changed. */
const CONTRACTS =
  /\b(DROP (TABLE|COLUMN|TYPE|FUNCTION|TRIGGER|CONSTRAINT|DEFAULT|VIEW|INDEX)|RENAME|CREATE OR REPLACE|SET NOT NULL|ALTER COLUMN \S+ (SET DATA )?TYPE|ADD (CONSTRAINT \S+ )?CHECK)\b/i;
/** Changes rows, and keeps them locked until the end of the migration. */
const CHANGES_ROWS = /^(UPDATE|DELETE|INSERT|WITH|TRUNCATE|DO)\b/i;
const IS_CONTRACT = /^-- Contract: \S/m;

/**
 * Returns what in a migration would make requests fail or wait, with what to do instead (see CONTRIBUTING.md, "Add a
 * migration"). `statements` have their measured locks.
 */
export function findViolations(script: string, statements: Statement[]): string[] {
  const blocking = statements.flatMap(({ locks }) => locks).filter(blocksWrites);
  const blockedTables = new Set(blocking.map(({ table }) => table));
  const working = blocking.filter(({ work }) => work);
  const contracts = statements.filter(({ sql }) => CONTRACTS.test(sql) && !IS_CONTRACT.test(script));
  const changing = statements.filter(({ sql }) => CHANGES_ROWS.test(sql));
  return [
    ...working.map(
      ({ table, work }) =>
        `${work} ${table} while writes wait: build an index CONCURRENTLY, add a constraint NOT VALID, add a column without a default that is computed per row`,
    ),
    ...(blockedTables.size > 1
      ? [`makes writes wait on ${[...blockedTables].join(" and ")}: split it into one migration per table`]
      : []),
    ...contracts.map(
      ({ sql }) =>
        `breaks the version before: ${firstLine(sql)}. Do so one version after the code has stopped using it, with a comment "-- Contract: unused since VERSION"`,
    ),
    ...changing.map(({ sql }) => `changes rows: ${firstLine(sql)}. Let the service do so, in batches`),
  ];
}

const firstLine = (sql: string) => sql.split("\n")[0];
