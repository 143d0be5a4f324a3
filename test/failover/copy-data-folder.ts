import pg from "pg";
import { runFromPage } from "../support/operating-page.js";
import { COPY_PRIMARY } from "./operating-page.js";
import { type PostgresServer, REPLICATION_PASSWORD } from "./postgres-server.js";

const SHOWN_SOURCE = "host=10.0.0.21";

/** Copies the running primary to the empty data folder of its new standby, with the command of gateway/docs/operating.md. */
export async function copyDataFolder(primary: PostgresServer, standby: PostgresServer): Promise<void> {
  const source = `host=127.0.0.1 port=${primary.port}`;
  if (hasBaseBackup(standby))
    await runFromPage(COPY_PRIMARY, (script) =>
      standby.run(script.replace(SHOWN_SOURCE, source), { PGPASSWORD: REPLICATION_PASSWORD }),
    );
  else await copyLikeBaseBackup(primary, standby, source);
}

/** The embedded PostgreSQL lacks pg_basebackup, and Debian's does not read newer servers. */
const hasBaseBackup = ({ program }: PostgresServer) => program.bin.startsWith("/usr/lib/postgresql");

/** What pg_basebackup does, with the functions that Postgres documents for other backup programs. */
async function copyLikeBaseBackup(primary: PostgresServer, standby: PostgresServer, source: string) {
  const [, connection = ""] = /--dbname="(.+)"/.exec(COPY_PRIMARY) ?? [];
  const client = new pg.Client({ connectionString: primary.url });
  await client.connect();
  try {
    await client.query("SELECT pg_backup_start('standby', fast => true)");
    // Replaying the WAL corrects files that change meanwhile.
    const skipped = "--exclude='./pg_wal/*' --exclude='./postmaster.*'";
    await standby.run(
      `mkdir -m 700 "$PGDATA"; tar -C '${primary.dataDir}' ${skipped} -c . | tar -C "$PGDATA" -x`,
    );
    const { rows } = await client.query<{ labelfile: string }>("SELECT labelfile FROM pg_backup_stop()");
    const info = `${connection.replace(SHOWN_SOURCE, source)} password=${REPLICATION_PASSWORD}`;
    await standby.run(
      `printf %s "$LABEL" >"$PGDATA/backup_label"
      touch "$PGDATA/standby.signal"
      echo "primary_conninfo = '${info}'" >>"$PGDATA/postgresql.auto.conf"`,
      { LABEL: rows[0]?.labelfile ?? "" },
    );
  } finally {
    await client.end();
  }
}
