import type { Command } from "commander";
import { beforeAll, describe, expect, test } from "vitest";
import { buildProgram } from "../../gateway/commands/program.js";
import { createTestDatabase, freePort, runCli } from "../harness.js";

const NOBODY = "00000000-0000-4000-8000-000000000000";

let DATABASE_URL: string;

beforeAll(async () => {
  DATABASE_URL = (await createTestDatabase()).url;
});

describe("a failure with --json is one JSON value on standard output", {
  timeout: 120_000,
}, () => {
  const fail = async (args: string[], env: Record<string, string> = {}) => {
    const { stdout, stderr, code } = await runCli([...args, "--json"], { env: { DATABASE_URL, ...env } });
    expect(stdout).toMatch(/^[^\n]+\n$/);
    const { error } = JSON.parse(stdout);
    for (const line of error.message.split("\n")) expect(stderr).toContain(`error: ${line}\n`);
    return { code, error };
  };

  test("wrong usage has the code USAGE_ERROR and exit code 2", async () => {
    expect(await fail(["users", "lst"])).toEqual({
      code: 2,
      error: { code: "USAGE_ERROR", message: "unknown command 'lst' (Did you mean list?)" },
    });
    expect(await fail(["forms", "show"])).toEqual({
      code: 2,
      error: { code: "USAGE_ERROR", message: "missing required argument 'id'" },
    });
  });

  test("refused values have the code VALIDATION_ERROR and each option with its issue", async () => {
    const email = { field: "--email", issue: "must be an email address" };
    const name = { field: "--name", issue: "must not be empty" };
    expect(await fail(["users", "create", "--email", "x", "--name", ""])).toEqual({
      code: 2,
      error: {
        code: "VALIDATION_ERROR",
        message: "--email: must be an email address; --name: must not be empty",
        errors: [email, name],
      },
    });
  });

  test("what is not there has the core's code and exit code 1", async () => {
    expect(await fail(["forms", "show", NOBODY])).toEqual({
      code: 1,
      error: { code: "RESOURCE_NOT_FOUND", message: "There is no form with this id." },
    });
  });

  test("bad settings have the code INVALID_SETTINGS, anything else COMMAND_FAILED", async () => {
    expect(await fail(["keys", "list"], { PORT: "abc", HOST: "", LOG_LEVEL: "loud" })).toMatchObject({
      code: 1,
      error: { code: "INVALID_SETTINGS", message: expect.stringMatching(/^PORT is .*\nLOG_LEVEL is /) },
    });
    const nowhere = `postgres://someone:s3cr3t@127.0.0.1:${await freePort()}/forms`;
    const { code, error } = await fail(["keys", "list"], { DATABASE_URL: nowhere });
    expect({ code, error }).toMatchObject({ code: 1, error: { code: "COMMAND_FAILED" } });
    expect(JSON.stringify(error)).not.toContain("s3cr3t");
  });
});

test("a command group without its second word is an error for --json too", async () => {
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

  test("every command's fits a terminal of 80 columns, but for its examples", () => {
    const commands = withSubcommands(buildProgram());
    expect(commands.map((command) => command.name())).toEqual(
      expect.arrayContaining(["serve", "find", "retry", "set-party"]),
    );
    for (const command of commands) {
      const [options] = helpOf(command).split("\nExample:\n");
      const settings = helpOf(command).split("\nSettings,")[1] ?? "";
      const long = `${options}${settings}`.split("\n").filter((line) => line.length > 80);
      expect([command.name(), long]).toEqual([command.name(), []]);
    }
  });

  test("lists NODE_ENV and all other settings", () => {
    const [serve] = buildProgram().commands.filter((command) => command.name() === "serve");
    const stdout = serve ? helpOf(serve) : "";
    for (const name of ["NODE_ENV", "DATABASE_URL", "LOG_LEVEL"])
      expect(stdout).toMatch(new RegExp(`^ {2}${name}$`, "m"));
  });
});
