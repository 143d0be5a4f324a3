import { pendingMigrations, unknownMigrations } from "../../prisma/migrate.js";
import { MIN_POSTGRES } from "../../prisma/server-version.js";
import { type DatabaseCheck, failed, ok, warning } from "./check.js";

const SERVER_SQL = `
  SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number,
    pg_is_in_recovery() AS "isStandby", current_database() AS name`;

export const databaseCheck: DatabaseCheck = {
  name: "database",
  async run(_context, db) {
    const [server] = await db.query<{ version: string; number: number; isStandby: boolean; name: string }>(
      "doctor-server",
      SERVER_SQL,
      [],
    );
    if (!server) return failed("The database returned no rows.");
    const description = `PostgreSQL ${server.version}, database ${server.name}`;
    if (server.number < MIN_POSTGRES * 10_000) {
      return failed(`${description}: upgrade it to at least version ${MIN_POSTGRES}.`);
    }
    if (server.isStandby) return failed(`${description}, is a standby: set DATABASE_URL to the primary.`);
    return ok(`${description}.`);
  },
};

export const schemaCheck: DatabaseCheck = {
  name: "schema",
  async run(_context, db) {
    const pending = await pendingMigrations(db.pool);
    if (pending.length > 0) {
      return failed(`Migrations are pending: ${pending.join(", ")}. Run \`guest-forms migrate\`.`);
    }
    const unknown = await unknownMigrations(db.pool);
    return unknown.length === 0
      ? ok("All migrations are applied.")
      : warning(
          `A newer version of guest-forms migrated the database (${unknown.join(", ")}): upgrade this installation.`,
        );
  },
};

/** Each process expires API keys by its own clock, within 1 second (gateway/docs/contract.md#authentication). */
const MAX_CLOCK_SKEW_MS = 1_000;

export const clockCheck: DatabaseCheck = {
  name: "clock",
  async run(_context, db) {
    const sent = Date.now();
    const [row] = await db.query<{ now: string }>("doctor-clock", "SELECT clock_timestamp() AS now", []);
    const received = Date.now();
    const difference = (sent + received) / 2 - Date.parse(row?.now ?? "");
    const uncertainty = (received - sent) / 2;
    const seconds = `${(Math.abs(difference) / 1000).toFixed(1)} s ${difference > 0 ? "ahead of" : "behind"}`;
    return Math.abs(difference) - uncertainty > MAX_CLOCK_SKEW_MS
      ? warning(`This machine's clock is ${seconds} the database's: synchronize both (NTP).`)
      : ok("The clocks of this machine and the database agree within a second.");
  },
};
