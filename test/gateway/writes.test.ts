import { describe, expect, onTestFinished, test } from "vitest";
import { examine } from "../../gateway/doctor/examine.js";
import { readSettings } from "../../server/config.js";
import { openPool } from "../../server/database/pool.js";
import { findWriteProblem } from "../../server/database/writes.js";
import { TOKEN } from "../internal/internal-gateway.js";
import { afterFile } from "../support/after-file.js";
import { createTestDatabase } from "../support/database.js";
import { openDatabaseOnDisk } from "../support/full-disk.js";
import { runSql } from "../support/run-sql.js";
import { startHolderGateway } from "./holder-gateway.js";

/** A database that can be written, until `breakWrites`. */
interface Case {
  url: string;
  breakWrites(): Promise<unknown>;
  repair?(): Promise<unknown>;
  /** Postgres' message. */
  error: RegExp;
  advice: RegExp;
}

async function openReadOnly(): Promise<Case> {
  const { url } = await createTestDatabase();
  const name = new URL(url).pathname.slice(1);
  const server = Object.assign(new URL(url), { pathname: "postgres" }).href;
  const set = async (value: string) => {
    await runSql(server, `ALTER DATABASE "${name}" SET default_transaction_read_only = ${value}`);
    // Sessions keep the setting with which they began.
    await runSql(
      url,
      `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
       WHERE datname = current_database() AND pid <> pg_backend_pid()`,
    );
  };
  return {
    url,
    breakWrites: () => set("on"),
    repair: () => set("off"),
    error: /in a read-only transaction/,
    advice: /^Check that DATABASE_URL leads to the primary/,
  };
}

/** A database, and the URL for a role that has only the privileges that guest-forms needs. */
async function openWithRole() {
  const { url } = await createTestDatabase();
  const role = new URL(url).pathname.slice(1);
  await runSql(url, `CREATE ROLE "${role}" LOGIN PASSWORD 'not-a-secret'`);
  afterFile(() => runSql(url, `DROP OWNED BY "${role}"; DROP ROLE "${role}"`));
  const onAll = (privileges: string, kind: string) =>
    runSql(url, `GRANT ${privileges} ON ALL ${kind} IN SCHEMA public TO "${role}"`);
  await onAll("SELECT, INSERT, UPDATE, DELETE", "TABLES");
  await onAll("USAGE", "SEQUENCES");
  // Of the tests themselves: see support/form-write-guard.ts.
  await runSql(
    url,
    `GRANT USAGE ON SCHEMA test_guard TO "${role}"; GRANT ALL ON ALL TABLES IN SCHEMA test_guard TO "${role}"`,
  );
  return { url, role, urlOfRole: Object.assign(new URL(url), { username: role, password: "not-a-secret" }).href };
}

async function openWithoutPrivileges(): Promise<Case> {
  const { url, role, urlOfRole } = await openWithRole();
  return {
    url: urlOfRole,
    breakWrites: () => runSql(url, `REVOKE INSERT ON creations, audit_entries FROM "${role}"`),
    error: /permission denied for table/,
    advice: /^Grant .*INSERT/,
  };
}

async function openWithFullDisk(): Promise<Case> {
  const { url, fill } = await openDatabaseOnDisk();
  return { url, breakWrites: fill, error: /No space left on device/, advice: /^Free or add disk space/ };
}

const CASES: [reason: string, open: () => Promise<Case>][] = [
  ["the database is read-only", openReadOnly],
  ["the database role lacks privileges", openWithoutPrivileges],
  ["the database server has no disk space left", openWithFullDisk],
];

describe("while the database answers but cannot be written, reads go on, writes get 503 and are logged as errors with what to do, /readyz and the metric say so, and doctor fails", () => {
  test.each(CASES)("%s", async (reason, open) => {
    const { url, breakWrites, repair, error, advice } = await open();
    const internal = { INTERNAL_TOKEN: TOKEN, INTERNAL_PORT: 0 };
    const { gateway, send, create, listingId } = await startHolderGateway({ DATABASE_URL: url, ...internal });
    const { json, status } = await create();
    expect([status, gateway.log.find(({ msg }) => msg === "unavailable")]).toEqual([201, undefined]);
    await breakWrites();

    const paths = [
      "/v1/forms",
      `/v1/forms/${(json as { id: string }).id}`,
      "/v1/listings",
      `/v1/listings/${listingId}`,
    ];
    for (const path of paths) expect([path, (await send({ path })).status]).toEqual([path, 200]);
    const write = await create();
    expect([write.status, Number(write.headers["retry-after"]) > 0]).toEqual([503, true]);
    expect(gateway.log.find(({ msg }) => msg === "unavailable")).toMatchObject({
      level: 50,
      reason: expect.stringMatching(error),
      advice: expect.stringMatching(advice),
    });

    const metric = async () => {
      const port = gateway.log.find(({ msg }) => msg === "listening for internal tools");
      const response = await fetch(`${port?.url}/metrics`, { headers: { Authorization: `Bearer ${TOKEN}` } });
      return /^guest_forms_database_writable (\d)$/m.exec(await response.text())?.[1];
    };
    const readyz = async () => {
      const ready = await send({ path: "/readyz" });
      return [ready.status, ready.json];
    };
    const doctor = async () => {
      const { settings } = gateway;
      const reports = await examine({ settings, env: {}, processes: 1, worker: false }, ["writes"]);
      return reports.find(({ name }) => name === "writes");
    };
    await expect.poll(readyz).toEqual([200, { status: "ok", writes: `failing: ${reason}` }]);
    expect(await metric()).toBe("0");
    expect(await doctor()).toMatchObject({
      status: "failed",
      message: expect.stringContaining(`Requests cannot write: ${reason}. `),
    });
    expect(gateway.log.find(({ msg }) => msg === "the database cannot be written")).toMatchObject({
      level: 50,
      reason,
    });

    if (!repair) return;
    await repair();
    expect(await doctor()).toMatchObject({ status: "ok" });
    await expect.poll(readyz, { timeout: 15_000, interval: 500 }).toEqual([200, { status: "ok" }]);
    expect(await metric()).toBe("1");
    expect(gateway.log.filter(({ msg }) => msg === "the database can be written again")).toHaveLength(1);
    expect((await create()).status).toBe(201);
  });
});

test("a privilege that the role lacks on any table of guest-forms, or on a sequence, is found; other tables in the schema need none", async () => {
  const { url, role, urlOfRole } = await openWithRole();
  const { pool, end } = openPool(readSettings({ DATABASE_URL: urlOfRole, DATABASE_STATEMENT_TIMEOUT_MS: "30000" }), {
    name: "test",
    max: 1,
    frozenAfterMs: 60_000,
  });
  onTestFinished(end);
  await runSql(url, "CREATE TABLE forms_backup AS SELECT * FROM forms");
  expect(await findWriteProblem(pool)).toBeUndefined();
  const tables = await runSql<{ name: string; kind: string }>(
    url,
    `SELECT relname AS name, relkind AS kind FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S')
     AND relname NOT IN ('forms_backup', '_prisma_migrations')`,
  );
  expect(tables.length).toBeGreaterThan(16);
  for (const { name, kind } of tables) {
    const privilege = kind === "S" ? "USAGE" : "DELETE";
    await runSql(url, `REVOKE ${privilege} ON ${name} FROM "${role}"`);
    const found = await findWriteProblem(pool);
    expect(found?.advice).toBe(`Grant ${privilege} on ${name} to the role ${role} of DATABASE_URL.`);
    await runSql(url, `GRANT ${privilege} ON ${name} TO "${role}"`);
  }
});
