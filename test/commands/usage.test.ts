import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "commander";
import { afterEach, describe, expect, test, vi } from "vitest";
import { buildProgram } from "../../gateway/commands/program.js";
import { createTestDatabase } from "../support/database.js";
import { runCli } from "../support/processes.js";
import { commandsWith } from "../support/run-in-process.js";
import { makeTempFolder } from "../support/run-tool.js";

const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";

const { url: DATABASE_URL } = await createTestDatabase();
const { failure } = commandsWith({ DATABASE_URL });
afterEach(() => void vi.restoreAllMocks());

test.each([
  ["keyz", /^unknown command 'keyz' \(Did you mean keys\?\)$/],
  ["unheard", /^unknown command 'unheard': see guest-forms --help$/],
  ["users lst", /^unknown command 'lst' \(Did you mean list\?\)$/],
  ["users nope", /^unknown command 'nope': see guest-forms users --help$/],
  ["keys list --usr x", /^unknown option '--usr' \(Did you mean --user\?\)$/],
  ["keys list extra", /too many arguments/],
  ["keys revoke", /missing required argument 'key'/],
  ["users create", /required option '--email <address>' not specified/],
  ["users create --email", /argument missing/],
  ["users create --email nobody", /--email: must be an email address/],
  ["import hosts.csv --dry-run --output ids.csv", /^--dry-run writes nothing: remove --output\.$/],
  ["keys issue-all hosts.txt --mode read-only --output keys.csv", /neither \.csv nor \.ndjson: add --format/],
  ["forms show X --jsn", /^unknown option '--jsn' \(Did you mean --json\?\)$/],
  ["forms show -oqi9IK9ydzCbIXA_D0-h --jsn", /^unknown option '--jsn' \(Did you mean --json\?\)$/],
  ["forms show X -oqi9IK9ydzCbIXA_D0-h", /^unknown option '-oqi9IK9ydzCbIXA_D0-h'/],
  [
    "listings show -loft",
    /^unknown option '-loft': see guest-forms listings show --help, or put -- before a value: guest-forms listings show -- -loft$/,
  ],
  ["users list -x", /^unknown option '-x': see guest-forms users list --help$/],
  ["serve --port 99999", /--port.*0 to 65535/],
])("a usage error has one line and the exit code 2: guest-forms %s", async (line, message) => {
  expect(await failure(...line.split(" "))).toEqual([2, expect.stringMatching(message)]);
});

describe("the database of a command", () => {
  test("one that does not exist and one that was never migrated are reported as such", async () => {
    const missing = Object.assign(new URL(DATABASE_URL), { pathname: "no_such_database" }).href;
    const { url: empty } = await createTestDatabase({ empty: true });
    for (const [url, message] of [
      [missing, /no database no_such_database/],
      [empty, /run `guest-forms migrate` first/],
    ] as const) {
      const [code, line] = await commandsWith({ DATABASE_URL: url }).failure("keys", "list");
      expect([code, line]).toEqual([1, expect.stringMatching(message)]);
    }
  });

  test("without DATABASE_URL it is that of a running `dev`, but never in production", async () => {
    const home = await makeTempFolder("commands");
    await mkdir(join(home, ".data"));
    await writeFile(join(home, ".data", "database-url"), `${DATABASE_URL}\n`, { mode: 0o600 });
    vi.spyOn(process, "cwd").mockReturnValue(home);
    const show = ["listings", "show", UNKNOWN_ID];
    const near = { DATABASE_URL: "" };
    expect((await commandsWith(near).failure(...show))[1]).toMatch(/There is no listing with this id or external id/);
    const production = commandsWith({ ...near, NODE_ENV: "production" });
    for (const args of [show, ["migrate"], ["serve"], ["worker"]])
      expect((await production.failure(...args))[1]).toMatch(/DATABASE_URL is not set: set it to/);
  });
});

test.each<[string[], number, object, Record<string, string>?]>([
  [["keys"], 2, { code: "USAGE_ERROR", message: "unknown option '--json': see guest-forms keys --help" }],
  [
    ["users", "create", "--email", "x", "--name", ""],
    2,
    {
      code: "VALIDATION_ERROR",
      message: "--email: must be an email address; --name: must not be empty",
      errors: [
        { field: "--email", issue: "must be an email address" },
        { field: "--name", issue: "must not be empty" },
      ],
    },
  ],
  [
    ["forms", "show", UNKNOWN_ID],
    1,
    { code: "RESOURCE_NOT_FOUND", message: "There is no form with this id, external id, public id or link." },
  ],
  [
    ["keys", "list"],
    1,
    {
      code: "INVALID_SETTINGS",
      message: expect.stringMatching(/^PORT is .*\n(.*\n)*INTERNAL_TOKEN is a value/),
    },
    { PORT: "abc", HOST: "", INTERNAL_TOKEN: "hunter2" },
  ],
])(
  "an error with --json is one line of JSON on standard output, with the code of the API, and has its exit code: %j",
  async (args, exitCode, expected, settings = {}) => {
    const env = { DATABASE_URL, ...settings };
    const { stdout, stderr, code } = await runCli([...args, "--json"], { env });
    expect(stdout).toMatch(/^[^\n]+\n$/);
    const { error } = JSON.parse(stdout);
    expect({ code, error }).toEqual({ code: exitCode, error: expected });
    for (const line of error.message.split("\n")) expect(stderr).toContain(`error: ${line}\n`);
    expect(stdout + stderr).not.toContain("hunter2");
  },
);

describe("--help", () => {
  const SETTINGS = "\nSettings (environment variables):\n";
  const helpOf = (command: Command): string => {
    let help = "";
    command.configureOutput({ writeOut: (text) => (help += text), getOutHelpWidth: () => 80 }).outputHelp();
    return help;
  };
  const withSubcommands = (command: Command): Command[] => [command, ...command.commands.flatMap(withSubcommands)];

  test("the help of every command fits in 80 columns, except for examples; serve, worker and dev list the settings", () => {
    const commands = withSubcommands(buildProgram());
    expect(commands.length).toBeGreaterThan(25);
    const withSettings = commands.filter((command) => helpOf(command).includes(SETTINGS));
    expect(withSettings.map((command) => command.name())).toEqual(["dev", "serve", "worker"]);
    for (const command of commands) {
      const [options] = helpOf(command).split("\nExample:\n");
      const settings = helpOf(command).split(SETTINGS)[1] ?? "";
      const long = `${options}${settings}`.split("\n").filter((line) => line.length > 80);
      expect([command.name(), long]).toEqual([command.name(), []]);
    }
    const serve = commands.find((command) => command.name() === "serve") as Command;
    for (const name of ["NODE_ENV", "DATABASE_URL", "LOG_LEVEL"])
      expect(helpOf(serve)).toMatch(new RegExp(`^ {2}${name}$`, "m"));
  });
});
