import { command, noun } from "../cli/command.js";
import { argument, option, optionWithDefault, required, USER_REFERENCE, userFilter } from "../cli/fields.js";
import { list } from "../cli/list.js";
import { formatRecord, toKebabCase } from "../cli/print.js";
import { DURATION, KEY, named, TEXT, USER_OPTION } from "../cli/readers.js";
import { formatOfFile, formatOption } from "../rows/format.js";

const NO_KEY =
  "There is no key with this id, with these first 12 characters, or equal to this. Of a part of a key, give the first 12.";

const KEY_HELP =
  "KEY is the key's id, its first 12 characters, or the whole key: only for one that has\nleaked, because your shell keeps it in its history.";

const KEY_TEXTS = { notFound: NO_KEY, help: KEY_HELP };
const KEY_ITSELF = { key: { ...argument("<key>", TEXT), ...KEY_TEXTS } };

const NEW_KEY = {
  mode: required(
    "--mode <mode>",
    "read-only keys cannot create or update forms",
    named({ "read-write": "READ_WRITE", "read-only": "READ_ONLY" } as const),
  ),
  label: option("--label <text>", "what the key is used for, at most 100 characters (default: none)", TEXT),
  expiresAt: option(
    "--expires-at <instant>",
    "ISO 8601 instant with seconds and an offset, such as 2030-01-31T00:00:00Z (default: never)",
    TEXT,
  ),
};

export const keys = noun("API keys; a key's scope is the listings on which its holder is an owner or writer", {
  issue: command({
    description: "issue a key to a user; it is shown only once",
    input: {
      userId: required("--user <user>", `key holder: ${USER_REFERENCE} of a user`, USER_OPTION),
      ...NEW_KEY,
    },
    examples: ['guest-forms keys issue --user host@example.com --mode read-only --label "channel manager"'],
    call: async ({ keys }, input) => withReadableMode(await keys.issue(input)),
    text: formatNewKey,
  }),
  "issue-all": command({
    description: "issue a key to each user of an import file who has none, and write the keys to a new file",
    input: {
      file: argument("<file>", TEXT),
      format: formatOption("its extension"),
      output: required(
        "--output <file>",
        "CSV file to create, readable only by you: externalId, email, keyId, key",
        TEXT,
      ),
      ...NEW_KEY,
    },
    help: `
Uses the rows of type user. Users who have a valid key with this mode and label get no other one. So after an
interruption, a run with another --output issues the missing keys. If it was killed, one key may be in no file:
\`keys list\` shows it as never used. Revoke it, and run this again.`,
    examples: ["guest-forms keys issue-all hosts.csv --mode read-write --output keys.csv"],
    check(given) {
      formatOfFile(given);
      return false;
    },
    async call(core, { file, ...input }) {
      const { issueKeys } = await import("./actions/issue-keys.js");
      return issueKeys(core, file, { ...input, format: formatOfFile({ file, ...input }) });
    },
    text: ({ issued, skipped }, { output }) =>
      `Keys written to ${output}: ${issued}. Users who had one already: ${skipped}.`,
    names: { userId: "FILE" },
  }),
  list: list({
    description: "list keys, oldest first, including revoked and expired ones, without their secrets",
    input: { userId: userFilter("keys of this user") },
    async call({ keys }, input) {
      const { items, nextCursor } = await keys.list(input);
      return { items: items.map(withReadableMode), nextCursor };
    },
    columns: ["id", "userId", "prefix", "mode", "label", "createdAt", "expiresAt", "revokedAt", "lastUsedAt"],
    none: "There are no keys.",
  }),
  show: command({
    description: "show a key and its holder, without its secret",
    input: KEY_ITSELF,
    examples: ["guest-forms keys show grf_rw_QapX4"],
    async call({ keys, users }, input) {
      const key = withReadableMode(await keys.find(input));
      const { email, name, externalId } = await users.get({ id: key.userId });
      return { ...key, user: { email, name, externalId } };
    },
  }),
  revoke: command({
    description: "revoke a key permanently; takes effect on every process within a second",
    input: KEY_ITSELF,
    async call({ keys }, input) {
      const { id, revokedAt } = await keys.find(input);
      return { ...withReadableMode(await keys.revoke({ id })), wasRevoked: revokedAt !== null };
    },
    text: ({ wasRevoked, ...key }) => `${formatRecord(key)}${wasRevoked ? "\n\nIt was already revoked." : ""}`,
  }),
  rotate: command({
    description: "replace a key; the old one keeps working for a grace period",
    input: {
      id: { ...argument("<key>", KEY), ...KEY_TEXTS },
      graceSeconds: optionWithDefault(
        "--grace <span>",
        "how long the old key keeps working: a number with s, m, h or d, at most 365d",
        DURATION,
        "24h",
      ),
    },
    examples: ["guest-forms keys rotate 5f0c6f0e-51a5-4c0c-8b0e-2f4f0d7f6c11 --grace 7d"],
    call: async ({ keys }, input) => withReadableMode(await keys.rotate(input)),
    text: formatNewKey,
  }),
});

function formatNewKey(key: object): string {
  return `${formatRecord(key)}\n\nSave the key now: it is not shown again.`;
}

function withReadableMode<Key extends { mode: string }>(key: Key) {
  return { ...key, mode: toKebabCase(key.mode) };
}
