import type { Caller } from "../../server/caller.js";
import { command } from "../cli/command.js";
import { argument } from "../cli/fields.js";
import { type Columns, formatTable } from "../cli/print.js";
import { TEXT } from "../cli/readers.js";
import { FORM_COLUMNS } from "./forms.js";

type Found = Awaited<ReturnType<Caller["find"]["byText"]>>;

const COLUMNS: Columns<Found["hits"][number]> = ["kind", "id", "name", "about", "checkInDate", "userId"];

/** How to see the rest of a kind of which only the first are shown. */
const LISTS: Partial<Record<Found["more"][number], string>> = {
  form: "guest-forms forms list --external-id TEXT",
  listing: "guest-forms listings list --search TEXT",
  user: "guest-forms users list --search TEXT",
};

export const find = command({
  description: "find what a text means: an id or its first 8 characters, a link, a key, an address, a part of a name",
  input: { text: argument("<text>", TEXT) },
  help: `
Exact matches come first: ids, external ids, public ids, guests' links, API keys and their first 12 characters, Message-IDs,
correlation ids, users' addresses. Then come listings and users whose names contain the text. An email address is also looked up
as a guest's, which reads all stored addresses and is audited.`,
  examples: ["guest-forms find bba9c729", "guest-forms find guest@example.com"],
  async call({ find, people }, { text }) {
    const { emailAddress } = await import("../../server/values.js");
    const { parseMessageId } = await import("../../server/emails/message-id.js");
    // A Message-ID looks like an address.
    const { success, data = "" } = emailAddress.safeParse(text);
    const isAddress = success && !parseMessageId(text);
    const [found, guest] = await Promise.all([
      find.byText({ text }),
      isAddress ? people.find({ email: data }) : { forms: [], unreadable: 0 },
    ]);
    return { ...found, formsOfGuest: guest.forms, unreadable: guest.unreadable };
  },
  text: ({ hits, more, formsOfGuest }) =>
    [
      formatTable(hits, COLUMNS, formsOfGuest.length > 0 ? "" : "Nothing was found."),
      ...more.map((kind) => `There are more than 10 of kind ${kind}${LISTS[kind] ? `: ${LISTS[kind]}` : "."}`),
      formsOfGuest.length > 0 &&
        `Forms with this address of their guest:\n\n${formatTable(formsOfGuest, FORM_COLUMNS, "")}`,
    ]
      .filter(Boolean)
      .join("\n\n"),
  problem: ({ unreadable }) =>
    unreadable > 0 ? `${unreadable} guests' addresses could not be read: APP_SECRETS lacks their secret.` : undefined,
});
