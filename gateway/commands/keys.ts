import { type Command, Option } from "commander";
import { notes } from "./help.js";
import { record, table } from "./print.js";
import { dataCommand, operate } from "./run.js";
import { span, spoken } from "./values.js";

const MODES = { "read-write": "READ_WRITE", "read-only": "READ_ONLY" } as const;

const NO_KEY = "There is no key with this id.";
const ONCE = "Keep the key now: it is not shown again.";

interface IssueOptions {
  user: string;
  mode: keyof typeof MODES;
  label?: string;
  expiresAt?: string;
}

/** `keys issue`, `keys list`, `keys revoke`, `keys rotate`. */
export function addKeys(program: Command): void {
  const keys = program
    .command("keys")
    .description("API keys; their scope is what their holder owns or may write");
  addIssue(keys);
  addList(keys);
  addRevoke(keys);
  addRotate(keys);
}

function addIssue(keys: Command): void {
  dataCommand(keys, "issue")
    .description("issue a key to a user; it is shown this once")
    .requiredOption("--user <user>", "id or e-mail address of the user who holds the key (required)")
    .addOption(
      new Option("--mode <mode>", "read-only keys may not create or update forms (required)")
        .choices(Object.keys(MODES))
        .makeOptionMandatory(),
    )
    .option("--label <text>", "what the key is for, at most 100 characters (default: none)")
    .option(
      "--expires-at <instant>",
      "ISO 8601 instant with seconds and an offset, such as 2030-01-31T00:00:00Z (default: never)",
    )
    .addHelpText(
      "after",
      notes(
        '\nExample:\n  guest-forms keys issue --user host@example.com --mode read-only --label "channel manager"',
      ),
    )
    .action((options: IssueOptions, command: Command) =>
      operate(command, {
        call: async (core, findUser) =>
          shown(
            await core.keys.issue({
              userId: await findUser("--user", options.user),
              mode: MODES[options.mode],
              label: options.label,
              expiresAt: options.expiresAt,
            }),
          ),
        text: (key) => `${record(key)}\n\n${ONCE}`,
      }),
    );
}

function addList(keys: Command): void {
  dataCommand(keys, "list")
    .description("list keys, ended ones too, without their secrets")
    .option("--user <user>", "only those of this user, an id or e-mail address (default: all)")
    .action(({ user }: { user?: string }, command: Command) =>
      operate(command, {
        call: async (core, findUser) => {
          const userId = user && (await findUser("--user", user));
          return (await core.keys.list({ userId })).map(shown);
        },
        text: (rows) =>
          table(
            rows,
            ["id", "userId", "prefix", "mode", "label", "createdAt", "expiresAt", "revokedAt", "lastUsedAt"],
            "There are no keys.",
          ),
      }),
    );
}

function addRevoke(keys: Command): void {
  dataCommand(keys, "revoke <id>")
    .description("end a key for good, within a second on every process")
    .action((id: string, _options: object, command: Command) =>
      operate(command, {
        call: async (core) => shown(await core.keys.revoke({ id })),
        text: record,
        missing: NO_KEY,
      }),
    );
}

function addRotate(keys: Command): void {
  dataCommand(keys, "rotate <id>")
    .description("replace a key; the old one goes on working for a grace period")
    .addOption(
      new Option("--grace <span>", "how long the old key goes on: a number with s, m, h or d, at most 365d")
        .argParser(span)
        .default(86_400, "24h"),
    )
    .addHelpText(
      "after",
      notes("\nExample:\n  guest-forms keys rotate 5f0c6f0e-51a5-4c0c-8b0e-2f4f0d7f6c11 --grace 7d"),
    )
    .action((id: string, { grace }: { grace: number }, command: Command) =>
      operate(command, {
        call: async (core) => shown(await core.keys.rotate({ id, graceSeconds: grace })),
        text: (key) => `${record(key)}\n\n${ONCE}`,
        options: { id: "ID", graceSeconds: "--grace" },
        missing: NO_KEY,
      }),
    );
}

const shown = <Key extends { mode: string }>(key: Key) => ({ ...key, mode: spoken(key.mode) });
