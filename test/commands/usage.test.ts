import { availableParallelism } from "node:os";
import type { Command } from "commander";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { explain } from "../../gateway/commands/failure.js";
import { buildProgram } from "../../gateway/commands/program.js";
import { createTestDatabase } from "../support/database.js";
import { TEST_SECRET } from "../support/factories.js";
import { freePort } from "../support/network.js";
import { runCli } from "../support/processes.js";
import { runInProcess } from "../support/run-in-process.js";

const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";

let DATABASE_URL: string;

beforeAll(async () => {
  DATABASE_URL = (await createTestDatabase()).url;
});

function findCommand(name: string): Command {
  const command = buildProgram().commands.find((each) => each.name() === name);
  if (!command) throw new Error(`no command ${name}`);
  return command;
}

describe("an error with --json", () => {
  test.each([
    [["users", "lst"], { code: "USAGE_ERROR", message: "unknown command 'lst' (Did you mean list?)" }],
    [["keys"], { code: "USAGE_ERROR", message: "unknown option '--json': see guest-forms keys --help" }],
    [
      ["users", "create", "--email", "x", "--name", ""],
      {
        code: "VALIDATION_ERROR",
        message: "--email: must be an email address; --name: must not be empty",
        errors: [
          { field: "--email", issue: "must be an email address" },
          { field: "--name", issue: "must not be empty" },
        ],
      },
    ],
  ])("is one line of JSON on standard output, and exits with 2: %j", async (args, expected) => {
    const { stdout, stderr, code } = await runCli([...args, "--json"], { env: { DATABASE_URL } });
    expect(stdout).toMatch(/^[^\n]+\n$/);
    const { error } = JSON.parse(stdout);
    expect({ code, error }).toEqual({ code: 2, error: expected });
    for (const line of error.message.split("\n")) expect(stderr).toContain(`error: ${line}\n`);
  });

  /** Runs a command in this process, which must fail. Returns the code that --json prints. */
  async function failureOf(args: string[], env: Record<string, string> = {}) {
    const all = { DATABASE_URL, APP_SECRETS: TEST_SECRET, ...env };
    for (const [name, value] of Object.entries(all)) vi.stubEnv(name, value);
    try {
      await buildProgram().parseAsync(args, { from: "user" });
    } catch (error) {
      const { exitCode, message, details } = explain(error);
      return { exitCode, message, code: details.code };
    } finally {
      vi.unstubAllEnvs();
    }
    throw new Error("did not fail");
  }

  test("has the code RESOURCE_NOT_FOUND for an unknown id, INVALID_SETTINGS for all invalid settings, and none for other errors", async () => {
    const usage = await runInProcess(["forms", "show"], {});
    expect([usage.code, usage.message]).toEqual([2, "missing required argument 'id'"]);
    expect(await failureOf(["forms", "show", UNKNOWN_ID])).toEqual({
      exitCode: 1,
      message: "There is no form with this id.",
      code: "RESOURCE_NOT_FOUND",
    });
    const invalid = { PORT: "abc", HOST: "", LOG_LEVEL: "loud" };
    expect(await failureOf(["keys", "list"], invalid)).toEqual({
      exitCode: 1,
      message: expect.stringMatching(/^PORT is .*\nLOG_LEVEL is /),
      code: "INVALID_SETTINGS",
    });
    const unreachable = `postgres://someone:s3cr3t@127.0.0.1:${await freePort()}/forms`;
    const failure = await failureOf(["keys", "list"], { DATABASE_URL: unreachable });
    expect(failure).toMatchObject({ exitCode: 1, code: undefined });
    expect(JSON.stringify(failure)).not.toContain("s3cr3t");
  });
});

test("serve --workers auto starts one worker per CPU core, and anything but auto and 1 to 256 is rejected", () => {
  const workersFor = (text: string) => {
    const command = findCommand("serve")
      .exitOverride()
      .configureOutput({ writeErr: () => {} });
    command.parseOptions(["--workers", text]);
    return command.opts().workers;
  };
  expect(["auto", "1", "256"].map(workersFor)).toEqual([availableParallelism(), 1, 256]);
  for (const text of ["0", "257", "-1", "1.5", "two", "Auto", ""])
    expect(() => workersFor(text), text).toThrow("It must be auto or an integer from 1 to 256.");
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
    const stdout = helpOf(findCommand("serve"));
    for (const name of ["NODE_ENV", "DATABASE_URL", "LOG_LEVEL"])
      expect(stdout).toMatch(new RegExp(`^ {2}${name}$`, "m"));
  });
});
