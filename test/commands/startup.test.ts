import { beforeAll, describe, expect, test } from "vitest";
import { readSettings } from "../../server/config.js";
import { spawnInternalGateway, TOKEN } from "../internal/internal-gateway.js";
import { createTestDatabase } from "../support/database.js";
import { runCli } from "../support/processes.js";

describe.each([
  ["serve", []],
  ["serve --workers 2", ["--workers", "2"]],
])("%s", (_name, args: string[]) => {
  let databaseUrl: string;
  let running: Awaited<ReturnType<typeof spawnInternalGateway>>;
  beforeAll(async () => {
    databaseUrl = (await createTestDatabase()).url;
    running = await spawnInternalGateway(["--no-worker", ...args], {
      DATABASE_URL: databaseUrl,
      RATE_LIMIT_MX: "5",
      DATABASE_POOL_SIZE: "900",
    });
  });

  test("reports that the internal port is in use, without the token", async () => {
    const { port } = new URL(running.url);
    const { code, stderr } = await runCli(["serve", "--no-worker", ...args], {
      env: {
        DATABASE_URL: databaseUrl,
        INTERNAL_TOKEN: TOKEN,
        INTERNAL_PORT: port,
        PORT: "0",
      },
    });
    expect(code).toBe(1);
    expect(stderr).toContain(`port ${port} for internal tools (EADDRINUSE)`);
    expect(stderr).not.toContain(TOKEN);
  });

  test("warns once that APP_SECRETS is not set, once about a misspelled setting, and once about more connections than Postgres allows", async () => {
    const { stderr, code } = await running.service.stop();
    expect(code).toBe(0);
    const lines = stderr.trimEnd().split("\n");
    const warnings = lines.map((line) => JSON.parse(line)).filter(({ level }) => level === 40);
    expect(warnings).toEqual([
      expect.objectContaining({ msg: expect.stringMatching(/^APP_SECRETS is not set: /) }),
      expect.objectContaining({ setting: "RATE_LIMIT_MX", meant: "RATE_LIMIT_MAX" }),
      expect.objectContaining({ needed: args.length > 0 ? 1800 : 900, allowed: expect.any(Number) }),
    ]);
  });
});

test("an INTERNAL_TOKEN that is too short is rejected and not shown", () => {
  expect(() => readSettings({ INTERNAL_TOKEN: "a-short-token" })).toThrow(
    "INTERNAL_TOKEN is a value of 13 characters, but must be a secret of at least 32 characters, without spaces.",
  );
});
