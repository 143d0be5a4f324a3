import { beforeAll, describe, expect, test } from "vitest";
import { readSettings } from "../../server/config.js";
import { spawnInternalGateway, TOKEN } from "../internal/internal-gateway.js";
import { createTestDatabase } from "../support/database.js";
import { TEST_SECRET } from "../support/factories.js";
import { runCli } from "../support/processes.js";

describe.each<[name: string, args: string[], secrets: Record<string, string>]>([
  ["serve", [], {}],
  ["serve --workers 2, with APP_SECRETS", ["--workers", "2"], { APP_SECRETS: TEST_SECRET }],
])("%s", (_name, args, secrets) => {
  let databaseUrl: string;
  let running: Awaited<ReturnType<typeof spawnInternalGateway>>;
  beforeAll(async () => {
    databaseUrl = (await createTestDatabase()).url;
    running = await spawnInternalGateway(["--no-worker", ...args], {
      ...secrets,
      DATABASE_URL: databaseUrl,
      RATE_LIMIT_MX: "5",
      DATABASE_POOL_SIZE: "900",
    });
  });

  test("reports that the internal port is in use, without the token", async () => {
    const { port } = new URL(running.url);
    const { code, stderr } = await runCli(["serve", "--no-worker", ...args], {
      env: {
        ...secrets,
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

  test("warns once if APP_SECRETS is not set, once about a misspelled setting, and once about more connections than Postgres allows", async () => {
    const { stderr, code } = await running.service.stop();
    expect(code).toBe(0);
    const lines = stderr.trimEnd().split("\n");
    const warnings = lines.map((line) => JSON.parse(line)).filter(({ level }) => level === 40);
    expect(warnings).toEqual([
      ...("APP_SECRETS" in secrets
        ? []
        : [expect.objectContaining({ msg: expect.stringMatching(/^APP_SECRETS is not set: /) })]),
      expect.objectContaining({ setting: "RATE_LIMIT_MX", meant: "RATE_LIMIT_MAX" }),
      expect.objectContaining({ needed: args.length > 0 ? 1802 : 901, allowed: expect.any(Number) }),
    ]);
  });
});

test("an INTERNAL_TOKEN that is too short is rejected and not shown", () => {
  expect(() => readSettings({ INTERNAL_TOKEN: "a-short-token" })).toThrow(
    "INTERNAL_TOKEN is a value of 13 characters, but must be a secret of at least 32 characters, without spaces.",
  );
});
