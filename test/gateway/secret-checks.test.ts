import { expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.js";
import { runCli, spawnCli } from "../support/processes.js";
import { runInProcess } from "../support/run-in-process.js";

const TIMEOUT = { timeout: 180_000 };
const [OLD, NEW, OTHER] = ["old", "new", "other"].map((name) => `${name}-secret-of-at-least-32-characters`) as [
  string,
  string,
  string,
];

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

/** Used with OLD. */
const used = await createTestDatabase();
expect((await migrate(used, OLD)).code).toBe(0);

it.each([[["serve"]], [["migrate"]]])(
  "%j refuses to start with a secret that the database does not know",
  TIMEOUT,
  async (args) => {
    const refused = await runCli(args, { env: envOf(used, OTHER) });
    expect(refused).toMatchObject({ stdout: "", code: 1 });
    expect(refused.stderr).toMatch(REFUSAL);
    expect(refused.stderr).not.toContain(OTHER);
  },
);

it.each([[["serve"]], [["worker"]], [["migrate"]], [["keys", "list"]]])(
  "%j without APP_SECRETS says how to make one",
  async (args) => {
    const { code, message } = await runInProcess(args, { ...envOf(used, ""), NODE_ENV: "production" });
    expect(code).toBe(1);
    expect(message).toMatch(/^APP_SECRETS is not set: set it to a secret, .* `openssl rand -base64 48`\.$/);
  },
);

it(
  "migrate --accept-new-secret accepts a new secret if the old one is lost, and serve then refuses the old one",
  TIMEOUT,
  async () => {
    const database = await createTestDatabase();
    await migrate(database, OLD);
    expect((await migrate(database, NEW, "--accept-new-secret")).code).toBe(0);
    const serve = spawnCli(["serve"], { env: envOf(database, NEW) });
    await serve.waitForLine(/^Listening on /);
    expect((await serve.stop()).code).toBe(0);
    const old = await runCli(["serve"], { env: envOf(database, OLD) });
    expect(old.stderr).toMatch(/^error: APP_SECRETS lacks the secret that this database is used with/);
  },
);
