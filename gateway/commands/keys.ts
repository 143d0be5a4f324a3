import { type Command, Option } from "commander";
import { addDataCommand, addListCommand, required } from "../cli/data-command.js";
import { formatRecord, formatTable } from "../cli/print.js";
import { parseDuration, toKebabCase } from "../cli/values.js";

const MODES = { "read-write": "READ_WRITE", "read-only": "READ_ONLY" } as const;

const NO_KEY = "There is no key with this id.";

export function addKeys(program: Command): void {
  const keys = program
    .command("keys")
    .description("API keys; a key's scope is the listings on which its holder is an owner or writer");
  addDataCommand(keys, "issue", {
    description: "issue a key to a user; it is shown only once",
    options: [
      required("--user <user>", "key holder: id or email address of a user"),
      required("--mode <mode>", "read-only keys cannot create or update forms").choices(Object.keys(MODES)),
      new Option("--label <text>", "what the key is used for, at most 100 characters (default: none)"),
      new Option(
        "--expires-at <instant>",
        "ISO 8601 instant with seconds and an offset, such as 2030-01-31T00:00:00Z (default: never)",
      ),
    ],
    help: 'Example:\n  guest-forms keys issue --user host@example.com --mode read-only --label "channel manager"',
    call: async (core, { user, mode, ...key }: IssueOptions, findUser) =>
      withReadableMode(await core.keys.issue({ ...key, userId: await findUser("--user", user), mode: MODES[mode] })),
    text: formatNewKey,
  });
  addListCommand(keys, "list", {
    description: "list keys, oldest first, including revoked and expired ones, without their secrets",
    options: [new Option("--user <user>", "only keys of this user; an id or email address (default: all)")],
    call: async (core, { user, ...page }: { user?: string }, findUser) => {
      const { items, nextCursor } = await core.keys.list({ ...page, userId: await findUser("--user", user) });
      return { items: items.map(withReadableMode), nextCursor };
    },
    table: (items) =>
      formatTable(
        items,
        ["id", "userId", "prefix", "mode", "label", "createdAt", "expiresAt", "revokedAt", "lastUsedAt"],
        "There are no keys.",
      ),
  });
  addDataCommand(keys, "revoke <id>", {
    description: "revoke a key permanently; takes effect on every process within a second",
    call: async (core, { id }: { id: string }) => withReadableMode(await core.keys.revoke({ id })),
    notFound: NO_KEY,
  });
  addDataCommand(keys, "rotate <id>", {
    description: "replace a key; the old one keeps working for a grace period",
    options: [
      new Option("--grace <span>", "how long the old key keeps working: a number with s, m, h or d, at most 365d")
        .argParser(parseDuration)
        .default(86_400, "24h"),
    ],
    help: "Example:\n  guest-forms keys rotate 5f0c6f0e-51a5-4c0c-8b0e-2f4f0d7f6c11 --grace 7d",
    call: async (core, { id, grace }: { id: string; grace: number }) =>
      withReadableMode(await core.keys.rotate({ id, graceSeconds: grace })),
    text: formatNewKey,
    optionNames: { id: "ID", graceSeconds: "--grace" },
    notFound: NO_KEY,
  });
}

interface IssueOptions {
  user: string;
  mode: keyof typeof MODES;
  label?: string;
  expiresAt?: string;
}

const formatNewKey = (key: object) => `${formatRecord(key)}\n\nSave the key now: it is not shown again.`;

const withReadableMode = <Key extends { mode: string }>(key: Key) => ({ ...key, mode: toKebabCase(key.mode) });
