import { expect, test } from "vitest";
import { TEST_SECRET } from "../factories.js";
import { createTestDatabase, spawnCli } from "../harness.js";

test.each([[[]], [["--workers", "2"]]])(
  "serve %j warns once about a misspelled setting, and once about more connections than Postgres allows",
  { timeout: 180_000 },
  async (args: string[]) => {
    const { url } = await createTestDatabase();
    const serve = spawnCli(["serve", "--json", "--no-worker", ...args], {
      env: {
        DATABASE_URL: url,
        APP_SECRETS: TEST_SECRET,
        PORT: "0",
        RATE_LIMIT_MX: "5",
        DATABASE_POOL_SIZE: "900",
      },
    });
    await serve.waitForLine(/^\{"url"/, 120_000);
    const { stderr, code } = await serve.stop();
    expect(code).toBe(0);
    const warnings = stderr
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line))
      .filter(({ level }) => level === 40);
    const processes = args.length > 0 ? 2 : 1;
    expect(warnings).toEqual([
      expect.objectContaining({ setting: "RATE_LIMIT_MX", meant: "RATE_LIMIT_MAX" }),
      expect.objectContaining({ needed: 900 * processes, allowed: expect.any(Number) }),
    ]);
  },
);
