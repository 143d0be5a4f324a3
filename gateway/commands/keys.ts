import { type Command, Option } from "commander";
import { notes } from "./help.js";
import { formatPage, type PageOptions, withPages } from "./pages.js";
import { formatRecord, formatTable } from "./print.js";
import { addDataCommand, callCore } from "./run.js";
import { parseDuration, toKebabCase } from "./values.js";

const MODES = { "read-write": "READ_WRITE", "read-only": "READ_ONLY" } as const;

const NO_KEY = "There is no key with this id.";
const SHOWN_ONCE_NOTICE = "Save the key now: it is not shown again.";

interface IssueOptions {
  user: string;
  mode: keyof typeof MODES;
  label?: string;
  expiresAt?: string;
}

export function addKeys(program: Command): void {
  const keys = program
    .command("keys")
    .description("API keys; a key's scope is the listings on which its holder is an owner or writer");
  addIssue(keys);
  addList(keys);
  addRevoke(keys);
  addRotate(keys);
}

function addIssue(keys: Command): void {
  addDataCommand(keys, "issue")
    .description("issue a key to a user; it is shown only once")
    .requiredOption("--user <user>", "key holder: id or email address of a user (required)")
    .addOption(
      new Option("--mode <mode>", "read-only keys cannot create or update forms (required)")
        .choices(Object.keys(MODES))
        .makeOptionMandatory(),
    )
    .option("--label <text>", "what the key is used for, at most 100 characters (default: none)")
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
      callCore(command, {
        call: async (core, findUser) =>
          withReadableMode(
            await core.keys.issue({
              userId: await findUser("--user", options.user),
              mode: MODES[options.mode],
              label: options.label,
              expiresAt: options.expiresAt,
            }),
          ),
        text: (key) => `${formatRecord(key)}\n\n${SHOWN_ONCE_NOTICE}`,
      }),
    );
}

function addList(keys: Command): void {
  withPages(addDataCommand(keys, "list"))
    .description("list keys, oldest first, including revoked and expired ones, without their secrets")
    .option("--user <user>", "only keys of this user; an id or email address (default: all)")
    .action(({ user, limit, after }: PageOptions & { user?: string }, command: Command) =>
      callCore(command, {
        call: async (core, findUser) => {
          const userId = user && (await findUser("--user", user));
          const page = await core.keys.list({ userId, limit, cursor: after });
          return { ...page, items: page.items.map(withReadableMode) };
        },
        text: (page) =>
          formatPage(
            formatTable(
              page.items,
              [
                "id",
                "userId",
                "prefix",
                "mode",
                "label",
                "createdAt",
                "expiresAt",
                "revokedAt",
                "lastUsedAt",
              ],
              "There are no keys.",
            ),
            page,
          ),
      }),
    );
}

function addRevoke(keys: Command): void {
  addDataCommand(keys, "revoke <id>")
    .description("revoke a key permanently; takes effect on every process within a second")
    .action((id: string, _options: object, command: Command) =>
      callCore(command, {
        call: async (core) => withReadableMode(await core.keys.revoke({ id })),
        text: formatRecord,
        notFound: NO_KEY,
      }),
    );
}

function addRotate(keys: Command): void {
  addDataCommand(keys, "rotate <id>")
    .description("replace a key; the old one keeps working for a grace period")
    .addOption(
      new Option(
        "--grace <span>",
        "how long the old key keeps working: a number with s, m, h or d, at most 365d",
      )
        .argParser(parseDuration)
        .default(86_400, "24h"),
    )
    .addHelpText(
      "after",
      notes("\nExample:\n  guest-forms keys rotate 5f0c6f0e-51a5-4c0c-8b0e-2f4f0d7f6c11 --grace 7d"),
    )
    .action((id: string, { grace }: { grace: number }, command: Command) =>
      callCore(command, {
        call: async (core) => withReadableMode(await core.keys.rotate({ id, graceSeconds: grace })),
        text: (key) => `${formatRecord(key)}\n\n${SHOWN_ONCE_NOTICE}`,
        options: { id: "ID", graceSeconds: "--grace" },
        notFound: NO_KEY,
      }),
    );
}

const withReadableMode = <Key extends { mode: string }>(key: Key) => ({
  ...key,
  mode: toKebabCase(key.mode),
});
