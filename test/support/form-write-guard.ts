import type { Prisma } from "../../prisma/client/client.js";
import type { Db } from "../../server/database/db.js";
import { runSql } from "./run-sql.js";

/** Tables that only `server/forms/write-form.ts` writes, and few others for one purpose, through the statements below. */
const TABLES = ["forms", "creations", "idempotency_keys"];

/** Names of the prepared statements that may write these tables. */
const WRITERS = [
  ...["insert-form", "update-form", "bind-key", "release-fingerprint"],
  ...["erase-guest-emails", "renew-forms", "renew-creation", "delete-old-idempotency-keys"],
  ...["delete-old-forms", "delete-old-undated-forms"],
];

const FIXTURE = "test_guard.is_fixture";
const list = (values: string[]) => values.map((value) => `'${value}'`).join(", ");

/*
 * Postgres itself knows what a statement writes, however it is written. The service prepares all its statements, Prisma's
 * client included, and tests do not prepare those that they send on `db.pool` or on their own connection.
 */
const GUARD = `
  CREATE SCHEMA test_guard;
  CREATE FUNCTION test_guard.reject_second_writer() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF EXISTS (
      SELECT FROM pg_prepared_statements
      WHERE statement = current_query() AND name NOT IN (${list(WRITERS)})
    ) AND current_setting('${FIXTURE}', true) IS DISTINCT FROM 'on' THEN
      RAISE EXCEPTION 'a second writer of %: %', TG_TABLE_NAME, current_query()
        USING HINT = 'Write through server/forms/write-form.ts. See test/support/form-write-guard.ts.';
    END IF;
    RETURN NULL;
  END $$;
  ${TABLES.map(
    (table) => `
    CREATE TRIGGER reject_second_writer AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON ${table}
      FOR EACH STATEMENT EXECUTE FUNCTION test_guard.reject_second_writer();`,
  ).join("")}`;

/** Makes statements of the service fail that write forms, unless they are the known ones. */
export const installFormWriteGuard = (url: string) => runSql(url, GUARD);

/** Runs `work`, in which a test may write forms with Prisma's client. */
export const writeFixtures = <Result>(
  db: Db,
  work: (tx: Prisma.TransactionClient) => Promise<Result>,
): Promise<Result> =>
  db.prisma.$transaction(async (tx) => {
    await tx.$executeRawUnsafe(`SET LOCAL ${FIXTURE} = 'on'`);
    return work(tx);
  });
