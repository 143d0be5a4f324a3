import { MIGRATE } from "../../prisma/advisory-locks.js";
import type { Queryable } from "../../prisma/history.js";
import type { Db } from "../database/db.js";
import { checkValue, SecretsRejected, secretId } from "../encryption.js";
import { invalid } from "../errors.js";

/** A secret registered in this database, by its check value in hex. */
interface RegisteredSecret {
  value: string;
  /** Whether a process has started with it as its newest secret; otherwise it was only listed behind another. */
  wasNewest: boolean;
}

// The secret in use comes first: the one that most recently became the newest.
const READ = `
  SELECT encode(value, 'hex') AS value, newest_since IS NOT NULL AS "wasNewest"
  FROM secret_checks ORDER BY newest_since DESC NULLS LAST`;

const REGISTER = `
  INSERT INTO secret_checks (value, newest_since)
  SELECT decode(hex, 'hex'), CASE WHEN position = 1 THEN clock_timestamp() END
  FROM unnest($1::text[]) WITH ORDINALITY AS listed(hex, position)
  ON CONFLICT (value) DO UPDATE SET newest_since =
    CASE WHEN $2::boolean THEN coalesce(excluded.newest_since, secret_checks.newest_since)
    ELSE coalesce(secret_checks.newest_since, excluded.newest_since) END`;

/** Without this, `doctor` would ask for a secret that is lost. */
const GIVE_UP_OTHERS = `
  UPDATE secret_checks SET needed_until = CASE WHEN encode(value, 'hex') <> ALL ($1::text[]) THEN now() END`;

/**
 * Throws SecretsRejected if the secrets, newest first, do not match this database. Returns false without a check if the
 * database knows no secret or has not been migrated.
 */
export async function checkSecrets(database: Queryable, configured: readonly string[]): Promise<boolean> {
  const known = await undefinedIfMissing(database.query(READ));
  if (!known) return false;
  check(known.rows as RegisteredSecret[], checkValues(configured));
  return known.rows.length > 0;
}

/**
 * Checks the secrets like `checkSecrets` and registers new ones: all if the database knows none, otherwise those listed
 * behind the newest. Throws if the database has not been migrated. Safe to call from several processes at once.
 */
export async function registerSecrets(db: Db, configured: readonly string[]): Promise<void> {
  const listed = checkValues(configured);
  const known = await db.query<RegisteredSecret>("secret-checks", READ, []);
  check(known, listed);
  if (isRegistered(known, listed)) return;
  await db.sqlTransaction(async (tx) => {
    // Waits for other processes, and for a migration, which registers its secrets before it releases the lock.
    await tx.query("lock-secret-checks", "SELECT pg_advisory_xact_lock($1)", [MIGRATE]);
    check(await tx.query<RegisteredSecret>("secret-checks", READ, []), listed);
    await tx.query("register-secrets", REGISTER, [listed, false]);
  });
}

/**
 * Like `registerSecrets`, for the session that migrates the database, which holds the lock. With `acceptNewest` it
 * registers all secrets without a check.
 */
export async function registerMigratedSecrets(
  session: Queryable,
  configured: readonly string[],
  { acceptNewest = false } = {},
): Promise<void> {
  const listed = checkValues(configured);
  if (!acceptNewest) check((await session.query(READ)).rows as RegisteredSecret[], listed);
  await session.query(REGISTER, [listed, acceptNewest]);
  if (acceptNewest) await session.query(GIVE_UP_OTHERS, [listed]);
}

/** Throws VALIDATION_ERROR if the first of these secrets is an older one than the one in use. */
export async function assertNewestInUse(db: Db, [newest]: readonly string[]): Promise<void> {
  const [inUse] = await db.query<RegisteredSecret>("secret-checks", READ, []);
  if (!inUse || secretId(inUse.value) === newest) return;
  throw invalid([{ field: "APP_SECRETS", issue: "must have the secret first that other processes have first" }]);
}

const READ_NEEDED = `
  SELECT encode(value, 'hex') AS value, needed_until AS "neededUntil" FROM secret_checks
  WHERE newest_since IS NOT NULL AND (needed_until IS NULL OR needed_until > now())
  ORDER BY needed_until DESC`;

/**
 * Secrets that were in use, are no longer listed, and may still be needed, the longest needed first. `neededUntil` is null if
 * it was not counted, or has no end.
 */
export async function findDroppedSecrets(
  database: Queryable,
  configured: readonly string[],
): Promise<{ id: string; neededUntil: Date | null }[]> {
  const needed = await undefinedIfMissing(database.query(READ_NEEDED));
  const listed = checkValues(configured);
  return ((needed?.rows ?? []) as { value: string; neededUntil: Date | null }[])
    .filter(({ value }) => !listed.includes(value))
    .map(({ value, neededUntil }) => ({ id: secretId(value), neededUntil }));
}

/** Codes for tables and columns that do not exist: the database has not been migrated. */
const UNDEFINED = ["42P01", "42703"];

const undefinedIfMissing = <Answer>(query: Promise<Answer>): Promise<Answer | undefined> =>
  query.catch((error: { code?: string }) => {
    if (!UNDEFINED.includes(error.code ?? "")) throw error;
    return undefined;
  });

/** Check values reveal nothing about the secrets or the keys derived for other purposes. */
const checkValues = (secrets: readonly string[]) => [...new Set(secrets.map(checkValue))];

const isRegistered = (known: readonly RegisteredSecret[], listed: readonly string[]) =>
  listed.every((wanted, index) => known.some(({ value, wasNewest }) => value === wanted && (index > 0 || wasNewest)));

function check([inUse, ...others]: readonly RegisteredSecret[], listed: readonly string[]): void {
  if (!inUse) return;
  const [newest] = listed;
  if (![inUse, ...others].some(({ value }) => value === newest)) throw new SecretsRejected(UNKNOWN);
  if (!listed.includes(inUse.value)) throw new SecretsRejected(DROPPED);
}

const SAME = "set the value that the other processes on this database use";
const LOST =
  "If that secret is lost, run `guest-forms migrate --accept-new-secret`. Email addresses encrypted with it stay " +
  "unreadable, and retried creates create second forms.";

const UNKNOWN =
  `The first secret in APP_SECRETS is unknown to this database. If it is mistyped, ${SAME}. To rotate, first list the new ` +
  `secret second on all processes and restart them, then put it first. ${LOST}`;
const DROPPED =
  `APP_SECRETS lacks the secret that this database is used with. If a value is outdated or mistyped, ${SAME}. To ` +
  `remove a secret, first list its successor before it on all processes and restart them. ${LOST}`;
