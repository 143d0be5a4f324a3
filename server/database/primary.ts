import type pg from "pg";

// A standby answers reads with old data and does not show the creates in flight on the primary, so lists would skip them. What
// DATABASE_URL leads to must be the primary. Reads from a standby have their own check (standby.ts).

/** A connection reached a standby. */
export class StandbyReached extends Error {
  /** Instead of an SQLSTATE: Postgres itself reports no error. */
  readonly code = "STANDBY";

  constructor() {
    super("the database is a standby");
  }
}

interface Server {
  query<Row>(text: string): Promise<{ rows: Row[] }>;
}

/** Throws StandbyReached if this statement reached a standby. */
export async function assertPrimary(database: Server): Promise<void> {
  const { rows } = await database.query<{ isStandby: boolean }>('SELECT pg_is_in_recovery() AS "isStandby"');
  if (rows[0]?.isStandby) throw new StandbyReached();
}

/** Rejects a new connection to a standby with StandbyReached. Runs these statements on others. */
export const verifyConnection = (statements?: string) => (client: pg.PoolClient, done: (error?: Error) => void) =>
  void Promise.all([assertPrimary(client), statements && client.query(statements)]).then(() => done(), done);

/**
 * SQL condition of every read of the six operations: on the primary, unless the read has checked a standby. Always true on a
 * connection that was verified.
 */
export const ON_PRIMARY = "/* on the primary */ true";

/** `pg_current_wal_lsn` is an error (55000) on a standby. In a subquery, it is called once per statement. */
const CHECKED = "(SELECT pg_current_wal_lsn()) IS NOT NULL";

/** The statement with a check instead of ON_PRIMARY: a pooler may connect each statement to another server. */
export const checkPrimary = (text: string): string => text.replace(ON_PRIMARY, CHECKED);
