import type { Caller } from "../../server/caller.js";
import { command } from "../cli/command.js";
import { argument } from "../cli/fields.js";
import { type Columns, formatTable } from "../cli/print.js";
import { TEXT } from "../cli/readers.js";

type Found = Awaited<ReturnType<Caller["find"]["byText"]>>;

const COLUMNS: Columns<Found["hits"][number]> = ["kind", "id", "name", "about", "checkInDate", "userId"];

/** How to see the rest of a kind of which only the first are shown. */
function listOf(kind: Found["more"][number], { unreadable }: Found): string {
  if (kind === "form")
    return unreadable === null ? ": guest-forms forms list --external-id TEXT" : ": guest-forms people show TEXT";
  return kind === "listing" || kind === "user" ? `: guest-forms ${kind}s list --search TEXT` : ".";
}

export const find = command({
  description: "find what a text means: an id or its beginning, a link, a key, an address, a part of a name",
  input: { text: argument("<text>", TEXT) },
  help: `
Exact matches come first: ids, external ids, public ids, guests' links, API keys and their first 12 characters, Message-IDs,
correlation ids, users' and guests' addresses. Then come listings and users whose names contain the text. A look-up of an
address reads all stored ones and is audited.`,
  examples: ["guest-forms find bba9c729", "guest-forms find guest@example.com"],
  call: ({ find }, { text }) => find.byText({ text }),
  text: (found) =>
    [
      formatTable(found.hits, COLUMNS, "Nothing was found."),
      ...found.more.map((kind) => `There are more than 10 of kind ${kind}${listOf(kind, found)}`),
    ].join("\n\n"),
  problem: ({ unreadable }) =>
    unreadable ? `${unreadable} guests' addresses could not be read: APP_SECRETS lacks their secret.` : undefined,
});
