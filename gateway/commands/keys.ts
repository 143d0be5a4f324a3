import { type Command, Option } from "commander";
import { addDataCommand, addListCommand, required, USER_REFERENCE } from "../cli/data-command.js";
import { formatRecord, formatTable } from "../cli/print.js";
import { parseDuration, toKebabCase } from "../cli/values.js";
import type { Format } from "../rows/format.js";
import { formatOfFile, formatOption } from "../rows/format-option.js";

const MODES = { "read-write": "READ_WRITE", "read-only": "READ_ONLY" } as const;

const NO_KEY =
  "There is no key with this id, with these first 12 characters, or equal to this. Of a part of a key, give the first 12.";

const KEY_HELP =
  "KEY is the key's id, its first 12 characters, or the whole key: only for one that has\nleaked, because your shell keeps it in its history.";

export function addKeys(program: Command): void {
  const keys = program
    .command("keys")
    .description("API keys; a key's scope is the listings on which its holder is an owner or writer");
  addDataCommand(keys, "issue", {
    description: "issue a key to a user; it is shown only once",
    options: [required("--user <user>", `key holder: ${USER_REFERENCE} of a user`), ...keyOptions()],
    help: 'Example:\n  guest-forms keys issue --user host@example.com --mode read-only --label "channel manager"',
    call: async (core, { user, mode, ...key }: IssueOptions, { findUser }) =>
      withReadableMode(await core.keys.issue({ ...key, userId: await findUser("--user", user), mode: MODES[mode] })),
    text: formatNewKey,
  });
  addDataCommand(keys, "issue-all <file>", {
    description: "issue a key to each user of an import file who has none, and write the keys to a new file",
    options: [
      formatOption("its extension"),
      required("--output <file>", "CSV file to create, readable only by you: externalId, email, keyId, key"),
      ...keyOptions(),
    ],
    help: `
Uses the rows of type user. Users who have a valid key with this mode and label get no other one. So after an
interruption, a run with another --output issues the missing keys. If it was killed, one key may be in no file:
\`keys list\` shows it as never used. Revoke it, and run this again.

Example:
  guest-forms keys issue-all hosts.csv --mode read-write --output keys.csv`,
    check: (given: IssueAllOptions) => void formatOfFile(given),
    call: async (core, given: IssueAllOptions) => {
      const { file, output, mode, label, expiresAt } = given;
      const { issueKeys } = await import("./actions/issue-keys.js");
      return issueKeys(core, file, { format: formatOfFile(given), output, mode: MODES[mode], label, expiresAt });
    },
    text: ({ issued, skipped }, { output }) =>
      `Keys written to ${output}: ${issued}. Users who had one already: ${skipped}.`,
    optionNames: { userId: "FILE" },
  });
  addListCommand(keys, "list", {
    description: "list keys, oldest first, including revoked and expired ones, without their secrets",
    options: [new Option("--user <user>", `only keys of this user; an ${USER_REFERENCE} (default: all)`)],
    call: async (core, { user, ...page }: { user?: string }, { findUser }) => {
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
  addDataCommand(keys, "show <key>", {
    description: "show a key and its holder, without its secret",
    help: `${KEY_HELP}\n\nExample:\n  guest-forms keys show grf_rw_QapX4`,
    call: async (core, given: { key: string }) => {
      const key = withReadableMode(await core.keys.find(given));
      const { email, name, externalId } = await core.users.get({ id: key.userId });
      return { ...key, user: { email, name, externalId } };
    },
    optionNames: { key: "KEY" },
    notFound: NO_KEY,
  });
  addDataCommand(keys, "revoke <key>", {
    description: "revoke a key permanently; takes effect on every process within a second",
    help: KEY_HELP,
    call: async (core, given: { key: string }) => {
      const { id, revokedAt } = await core.keys.find(given);
      return { ...withReadableMode(await core.keys.revoke({ id })), wasRevoked: revokedAt !== null };
    },
    text: ({ wasRevoked, ...key }) => `${formatRecord(key)}${wasRevoked ? "\n\nIt was already revoked." : ""}`,
    optionNames: { key: "KEY" },
    notFound: NO_KEY,
  });
  addDataCommand(keys, "rotate <key>", {
    description: "replace a key; the old one keeps working for a grace period",
    options: [
      new Option("--grace <span>", "how long the old key keeps working: a number with s, m, h or d, at most 365d")
        .argParser(parseDuration)
        .default(86_400, "24h"),
    ],
    help: `${KEY_HELP}\n\nExample:\n  guest-forms keys rotate 5f0c6f0e-51a5-4c0c-8b0e-2f4f0d7f6c11 --grace 7d`,
    call: async (core, { key, grace }: { key: string; grace: number }, { findKey }) =>
      withReadableMode(await core.keys.rotate({ id: await findKey(key), graceSeconds: grace })),
    text: formatNewKey,
    optionNames: { id: "KEY", key: "KEY", graceSeconds: "--grace" },
    notFound: NO_KEY,
  });
}

interface KeyOptions {
  mode: keyof typeof MODES;
  label?: string;
  expiresAt?: string;
}

interface IssueOptions extends KeyOptions {
  user: string;
}

interface IssueAllOptions extends KeyOptions {
  file: string;
  format?: Format;
  output: string;
}

const keyOptions = () => [
  required("--mode <mode>", "read-only keys cannot create or update forms").choices(Object.keys(MODES)),
  new Option("--label <text>", "what the key is used for, at most 100 characters (default: none)"),
  new Option(
    "--expires-at <instant>",
    "ISO 8601 instant with seconds and an offset, such as 2030-01-31T00:00:00Z (default: never)",
  ),
];

const formatNewKey = (key: object) => `${formatRecord(key)}\n\nSave the key now: it is not shown again.`;

const withReadableMode = <Key extends { mode: string }>(key: Key) => ({ ...key, mode: toKebabCase(key.mode) });
