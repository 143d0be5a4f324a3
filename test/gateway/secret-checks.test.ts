import { beforeAll, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.js";
import { runCli, spawnCli } from "../support/processes.js";
import { runInProcess } from "../support/run-in-process.js";

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

const migrate = (database: TestDatabase, secrets: string, ...options: string[]) =>
  runInProcess(["migrate", ...options], envOf(database, secrets));

async function startAndStopServe(database: TestDatabase, secrets: string): Promise<void> {
  const serve = spawnCli(["serve"], { env: envOf(database, secrets) });
  await serve.waitForLine(/^Listening on /);
  expect((await serve.stop()).code).toBe(0);
}

/** Used with OLD. */
let used: TestDatabase;
beforeAll(async () => {
  used = await createTestDatabase();
  expect((await migrate(used, OLD)).code).toBe(0);
});

it.each([
  [["serve"]],
  [["serve", "--workers", "2"]],
  [["worker"]],
  [["migrate"]],
  [["users", "create", "--email", "a@b.io"]],
])("%j refuses to start with a secret that the database does not know", TIMEOUT, async (args) => {
  const refused = await runCli(args, { env: envOf(used, OTHER) });
  expect(refused).toMatchObject({ stdout: "", code: 1 });
  expect(refused.stderr).toMatch(REFUSAL);
  expect(refused.stderr).not.toContain(OTHER);
});

it("migrate without APP_SECRETS refuses a database that is used with a secret, and changes nothing", async () => {
  const { code, message } = await migrate(used, "");
  expect(code).toBe(1);
  expect(message).toMatch(/^APP_SECRETS is not set, but this database is used with a secret/);
  expect((await migrate(used, OLD)).stdout).toBe("The database is already up to date.\n");
});

it("a secret is rotated in three restarts of serve", TIMEOUT, async () => {
  const database = await createTestDatabase();
  await migrate(database, OLD);
  for (const secrets of [`${OLD},${NEW}`, `${NEW},${OLD}`, NEW]) await startAndStopServe(database, secrets);
});

it(
  "migrate --accept-new-secret accepts a new secret if the old one is lost, and serve then refuses the old one",
  TIMEOUT,
  async () => {
    const database = await createTestDatabase();
    await migrate(database, OLD);
    expect(await migrate(database, "", "--accept-new-secret")).toMatchObject({
      code: 2,
      message: "--accept-new-secret: APP_SECRETS is not set.",
    });
    expect((await migrate(database, NEW, "--accept-new-secret")).code).toBe(0);
    await startAndStopServe(database, NEW);
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
    expect(await migrate(database, OLD)).toMatchObject({ code: 0 });
    const { code, stderr } = await early.done;
    expect(code).toBe(1);
    expect(stderr).toMatch(/\nerror: The first secret in APP_SECRETS is unknown to this database\./);
  },
);
