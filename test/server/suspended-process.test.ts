import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { createTestDatabase } from "../support/database.js";
import { spawnNode } from "../support/processes.js";
import { openClient } from "./open-test-db.js";

const STATEMENT_TIMEOUT_MS = 4_000;
/** A connection without a response for this long counts as frozen. */
const FROZEN_MS = STATEMENT_TIMEOUT_MS + 500;
const LOCK = 4711;

const script = (url: string) => `
  import { openDb } from ${JSON.stringify(join(packageRoot(), "dist/server/db.js"))};
  const db = openDb({
    url: ${JSON.stringify(url)},
    poolSize: 1,
    connectTimeoutMs: 10_000,
    statementTimeoutMs: ${STATEMENT_TIMEOUT_MS},
    lockTimeoutMs: ${STATEMENT_TIMEOUT_MS},
  });
  const pid = () => db.query("pid", "SELECT pg_backend_pid() AS pid", []).then(([row]) => row.pid);
  const before = await pid();
  console.log("before", before);
  const outcome = await db.query("wait", "SELECT pg_advisory_lock(${LOCK})", []).then(
    () => "answered",
    (error) => error.message,
  );
  console.log("after", await pid(), outcome);
  await db.close();
`;

test("a process suspended for longer than the statement timeout reads the response on the same connection", async () => {
  const { url } = await createTestDatabase();
  const observer = await openClient(url);
  await observer.query("SELECT pg_advisory_lock($1)", [LOCK]);
  const child = spawnNode(["--input-type=module", "--eval", script(url)]);
  const [, backend] = await child.waitForLine(/^before (\d+)$/);
  /** Returns the state of the child's connection, and the milliseconds since its statement started. */
  const readActivity = async () => {
    const { rows } = await observer.query<{ state: string; waits: string | null; ms: number }>(
      `SELECT state, wait_event_type AS waits, extract(epoch FROM clock_timestamp() - query_start)::float8 * 1000 AS ms
       FROM pg_stat_activity WHERE pid = $1`,
      [backend],
    );
    return rows[0];
  };
  await expect.poll(readActivity, { interval: 10 }).toMatchObject({ state: "active", waits: "Lock" });
  process.kill(child.pid, "SIGSTOP");
  await observer.query("SELECT pg_advisory_unlock($1)", [LOCK]);
  // Postgres has sent the response. The child is suspended and cannot read it.
  await expect.poll(async () => (await readActivity())?.state, { interval: 10 }).toBe("idle");
  await expect.poll(async () => (await readActivity())?.ms).toBeGreaterThan(FROZEN_MS + 500);
  process.kill(child.pid, "SIGCONT");
  const { stdout } = await child.done;
  expect(stdout).toBe(`before ${backend}\nafter ${backend} answered\n`);
});
