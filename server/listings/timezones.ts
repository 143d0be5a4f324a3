import { performance } from "node:perf_hooks";
import type { Sql } from "../database/db.js";
import { invalid } from "../errors.js";

/** Whether this version of Node.js knows a time zone, ignoring case. */
export function isKnownToIntl(timeZone: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone });
    return true;
  } catch {
    return false;
  }
}

/** The names that a database knows, by their lower-case form. */
export type TimeZoneNames = ReadonlyMap<string, string>;

/** Postgres reads a file per name, which takes about 0.1 s. */
const MAX_AGE_MS = 60_000;

const namesByDatabase = new WeakMap<Sql, { readAt: number; names: Promise<TimeZoneNames> }>();

/** Reads the names that the database knows, at most once a minute: packages of its server decide which they are. */
export function readTimeZoneNames(db: Sql): Promise<TimeZoneNames> {
  const cached = namesByDatabase.get(db);
  if (cached && performance.now() - cached.readAt < MAX_AGE_MS) return cached.names;
  const names = db
    .query<{ name: string }>("time-zone-names", "SELECT name FROM pg_timezone_names", [])
    .then((rows) => new Map(rows.map(({ name }) => [name.toLowerCase(), name])));
  namesByDatabase.set(db, { readAt: performance.now(), names });
  names.catch(() => namesByDatabase.delete(db));
  return names;
}

export const UNKNOWN_TO_DATABASE =
  "is not known to this database: use the current name of the zone, such as Asia/Kolkata for Asia/Calcutta";

/** Returns the name as the database writes it. Throws VALIDATION_ERROR if the database does not know it. */
export async function canonicalTimeZone(db: Sql, name: string): Promise<string> {
  const known = (await readTimeZoneNames(db)).get(name.toLowerCase());
  if (known === undefined) throw invalid([{ field: "timezone", issue: UNKNOWN_TO_DATABASE }]);
  return known;
}

const MAX_LISTINGS = 3;

// Materialized: otherwise the planner may read all listings in the order of their ids.
const IN_UNKNOWN_ZONES = `
  WITH found AS MATERIALIZED (
    SELECT l.id, l.timezone FROM listings l
    WHERE NOT EXISTS (SELECT FROM unnest($1::text[]) AS known (name) WHERE known.name = lower(l.timezone))
  )
  SELECT id, timezone, (SELECT count(*)::int FROM found) AS total FROM found ORDER BY id LIMIT ${MAX_LISTINGS}`;

/** Finds listings whose time zone this Node.js or the database does not know: at most three, and how many there are. */
export async function findUnknownTimeZones(db: Sql) {
  const names = await readTimeZoneNames(db);
  const known = [...names.keys()].filter(isKnownToIntl);
  const listings = await db.query<{ id: string; timezone: string; total: number }>(
    "listings-in-unknown-time-zones",
    IN_UNKNOWN_ZONES,
    [known],
  );
  return { listings, total: listings[0]?.total ?? 0 };
}
