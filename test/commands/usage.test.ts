import type { Command } from "commander";
import { beforeAll, describe, expect, test } from "vitest";
import { buildProgram } from "../../gateway/commands/program.js";
import { createTestDatabase, freePort, runCli } from "../harness.js";

const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";

let DATABASE_URL: string;

beforeAll(async () => {
  DATABASE_URL = (await createTestDatabase()).url;
});

describe("errors with --json", {
  timeout: 120_000,
}, () => {
  const runFailing = async (args: string[], env: Record<string, string> = {}) => {
    const { stdout, stderr, code } = await runCli([...args, "--json"], { env: { DATABASE_URL, ...env } });
    expect(stdout).toMatch(/^[^\n]+\n$/);
    const { error } = JSON.parse(stdout);
    for (const line of error.message.split("\n")) expect(stderr).toContain(`error: ${line}\n`);
    return { code, error };
  };

  test("a usage error prints JSON with the code USAGE_ERROR and exits with 2", async () => {
    expect(await runFailing(["users", "lst"])).toEqual({
      code: 2,
      error: { code: "USAGE_ERROR", message: "unknown command 'lst' (Did you mean list?)" },
    });
    expect(await runFailing(["forms", "show"])).toEqual({
      code: 2,
      error: { code: "USAGE_ERROR", message: "missing required argument 'id'" },
    });
  });

  test("rejected values print JSON with the code VALIDATION_ERROR and the issue of each option", async () => {
    const email = { field: "--email", issue: "must be an email address" };
    const name = { field: "--name", issue: "must not be empty" };
    expect(await runFailing(["users", "create", "--email", "x", "--name", ""])).toEqual({
      code: 2,
      error: {
        code: "VALIDATION_ERROR",
        message: "--email: must be an email address; --name: must not be empty",
        errors: [email, name],
      },
    });
  });

  test("an unknown id prints JSON with the code RESOURCE_NOT_FOUND and exits with 1", async () => {
    expect(await runFailing(["forms", "show", UNKNOWN_ID])).toEqual({
      code: 1,
      error: { code: "RESOURCE_NOT_FOUND", message: "There is no form with this id." },
    });
  });

  test("invalid settings print JSON with the code INVALID_SETTINGS, and any other error with COMMAND_FAILED", async () => {
    expect(await runFailing(["keys", "list"], { PORT: "abc", HOST: "", LOG_LEVEL: "loud" })).toMatchObject({
      code: 1,
      error: { code: "INVALID_SETTINGS", message: expect.stringMatching(/^PORT is .*\nLOG_LEVEL is /) },
    });
    const unreachable = `postgres://someone:s3cr3t@127.0.0.1:${await freePort()}/forms`;
    const { code, error } = await runFailing(["keys", "list"], { DATABASE_URL: unreachable });
    expect({ code, error }).toMatchObject({ code: 1, error: { code: "COMMAND_FAILED" } });
    expect(JSON.stringify(error)).not.toContain("s3cr3t");
  });
});

test("a command group without a subcommand is a USAGE_ERROR with --json", async () => {
  const { stdout, code } = await runCli(["keys", "--json"]);
  expect(code).toBe(2);
  expect(JSON.parse(stdout).error.code).toBe("USAGE_ERROR");
});

describe("--help", () => {
  const helpOf = (command: Command): string => {
    let help = "";
    command.configureOutput({ writeOut: (text) => (help += text), getOutHelpWidth: () => 80 }).outputHelp();
    return help;
  };
  const withSubcommands = (command: Command): Command[] => [
    command,
    ...command.commands.flatMap(withSubcommands),
  ];

  const SETTINGS = "\nSettings (environment variables):\n";

  test("the help of every command fits in 80 columns, except for examples", () => {
    const commands = withSubcommands(buildProgram());
    expect(commands.map((command) => command.name())).toEqual(
      expect.arrayContaining(["serve", "find", "retry", "set-party"]),
    );
    const withSettings = commands.filter((command) => helpOf(command).includes(SETTINGS));
    expect(withSettings.map((command) => command.name())).toEqual(["dev", "serve", "worker"]);
    for (const command of commands) {
      const [options] = helpOf(command).split("\nExample:\n");
      const settings = helpOf(command).split(SETTINGS)[1] ?? "";
      const long = `${options}${settings}`.split("\n").filter((line) => line.length > 80);
      expect([command.name(), long]).toEqual([command.name(), []]);
    }
  });

  test("the help of serve lists NODE_ENV and the other settings", () => {
    const [serve] = buildProgram().commands.filter((command) => command.name() === "serve");
    const stdout = serve ? helpOf(serve) : "";
    for (const name of ["NODE_ENV", "DATABASE_URL", "LOG_LEVEL"])
      expect(stdout).toMatch(new RegExp(`^ {2}${name}$`, "m"));
  });
});
