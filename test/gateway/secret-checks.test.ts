import { expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.js";
import { type RunningProcess, runCli, spawnCli } from "../support/processes.js";

const TIMEOUT = { timeout: 180_000 };
const [OLD, NEW, OTHER] = ["old", "new", "other"].map(
  (name) => `${name}-secret-of-at-least-32-characters`,
) as [string, string, string];

const envOf = ({ url }: TestDatabase, APP_SECRETS: string) => ({
  DATABASE_URL: url,
  APP_SECRETS,
  PORT: "0",
  DATABASE_CONNECT_TIMEOUT_MS: "10000",
});

/** One line that says what is wrong, and what to do about a typing error and for a rotation. */
const REFUSAL =
  /^error: The first secret in APP_SECRETS is unknown to this database\. If it is mistyped, [^\n]* To rotate, [^\n]*\n$/;

const waitUntilListening = (serve: RunningProcess) => serve.waitForLine(/^Listening on /);

it.each([
  [["serve"]],
  [["serve", "--workers", "2"]],
  [["worker"]],
  [["migrate"]],
  [["users", "create", "--email", "a@b.io"]],
])("%j refuses to start with a secret that the database does not know", TIMEOUT, async (args) => {
  const database = await createTestDatabase();
  expect((await runCli(["migrate"], { env: envOf(database, OLD) })).code).toBe(0);
  const refused = await runCli(args, { env: envOf(database, OTHER) });
  expect(refused).toMatchObject({ stdout: "", code: 1 });
  expect(refused.stderr).toMatch(REFUSAL);
  expect(refused.stderr).not.toContain(OTHER);
});

it(
  "migrate without APP_SECRETS refuses a database that is used with a secret, and changes nothing",
  TIMEOUT,
  async () => {
    const database = await createTestDatabase();
    await runCli(["migrate"], { env: envOf(database, OLD) });
    const without = await runCli(["migrate"], { env: envOf(database, "") });
    expect(without.stderr).toMatch(/^error: APP_SECRETS is not set, but this database is used with a secret/);
    expect((await runCli(["migrate"], { env: envOf(database, OLD) })).stdout).toBe(
      "The database is already up to date.\n",
    );
  },
);

it("a secret is rotated in three restarts of serve", TIMEOUT, async () => {
  const database = await createTestDatabase();
  for (const secrets of [OLD, `${OLD},${NEW}`, `${NEW},${OLD}`, NEW]) {
    const serve = spawnCli(["serve"], { env: envOf(database, secrets) });
    await waitUntilListening(serve);
    expect((await serve.stop()).code).toBe(0);
  }
});

it(
  "migrate --accept-new-secret accepts a new secret if the old one is lost, and serve then refuses the old one",
  TIMEOUT,
  async () => {
    const database = await createTestDatabase();
    await runCli(["migrate"], { env: envOf(database, OLD) });
    const unset = await runCli(["migrate", "--accept-new-secret"], { env: envOf(database, "") });
    expect(unset).toMatchObject({ code: 2, stderr: "error: --accept-new-secret: APP_SECRETS is not set.\n" });
    expect((await runCli(["migrate", "--accept-new-secret"], { env: envOf(database, NEW) })).code).toBe(0);
    const serve = spawnCli(["serve"], { env: envOf(database, NEW) });
    await waitUntilListening(serve);
    expect((await serve.stop()).code).toBe(0);
    const old = await runCli(["serve"], { env: envOf(database, OLD) });
    expect(old.stderr).toMatch(/^error: APP_SECRETS lacks the secret that this database is used with/);
  },
);

it.each([[["serve"]], [["worker"]]])(
  "%j that waits for migrations exits with 1 if they register another secret",
  TIMEOUT,
  async (args) => {
    const database = await createTestDatabase({ empty: true });
    const early = spawnCli(args, { env: envOf(database, OTHER) });
    await early.waitForLine(/^(Listening on|Sending notifications)/);
    expect((await runCli(["migrate"], { env: envOf(database, OLD) })).code).toBe(0);
    const { code, stderr } = await early.done;
    expect(code).toBe(1);
    expect(stderr).toMatch(/\nerror: The first secret in APP_SECRETS is unknown to this database\./);
  },
);
