import { pendingMigrations, unknownMigrations } from "../../prisma/migrate.js";
import { MIN_POSTGRES } from "../../prisma/server-version.js";
import { type DatabaseCheck, failed, ok, warning } from "./check.js";

const SERVER = `
  SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number,
    pg_is_in_recovery() AS "isStandby", current_database() AS name`;

export const databaseCheck: DatabaseCheck = {
  name: "database",
  async run(_examined, db) {
    const [server] = await db.query<{ version: string; number: number; isStandby: boolean; name: string }>(
      "doctor-server",
      SERVER,
      [],
    );
    if (!server) return failed("The database answers nothing.");
    const what = `PostgreSQL ${server.version}, database ${server.name}`;
    if (server.number < MIN_POSTGRES * 10_000) {
      return failed(`${what}: the least version is ${MIN_POSTGRES}, upgrade the server.`);
    }
    if (server.isStandby) return failed(`${what}, is a standby: set DATABASE_URL to the primary.`);
    return ok(`${what}.`);
  },
};

export const schemaCheck: DatabaseCheck = {
  name: "schema",
  async run(_examined, db) {
    const pending = await pendingMigrations(db.pool);
    if (pending.length > 0) {
      return failed(`Migrations are pending: ${pending.join(", ")}. Run \`guest-forms migrate\`.`);
    }
    const unknown = await unknownMigrations(db.pool);
    return unknown.length === 0
      ? ok("All migrations are applied.")
      : warning(`A newer version has migrated it (${unknown.join(", ")}): upgrade this one too.`);
  },
};

/** API keys expire by the clock of each process, which is promised to a second. */
const MAX_DIFFERENCE_MS = 1_000;

export const clockCheck: DatabaseCheck = {
  name: "clock",
  async run(_examined, db) {
    const sent = Date.now();
    const [row] = await db.query<{ now: string }>("doctor-clock", "SELECT clock_timestamp() AS now", []);
    const received = Date.now();
    const difference = (sent + received) / 2 - Date.parse(row?.now ?? "");
    const uncertainty = (received - sent) / 2;
    const seconds = `${(Math.abs(difference) / 1000).toFixed(1)} s ${difference > 0 ? "ahead of" : "behind"}`;
    return Math.abs(difference) - uncertainty > MAX_DIFFERENCE_MS
      ? warning(`This machine's clock is ${seconds} the database's: synchronize both (NTP).`)
      : ok("This machine and the database agree to a second.");
  },
};
