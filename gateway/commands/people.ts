import { command, noun } from "../cli/command.js";
import { argument, flag, option } from "../cli/fields.js";
import { formatTable } from "../cli/print.js";
import { TEXT } from "../cli/readers.js";
import { FORM_COLUMNS } from "./forms.js";

const INCOMPLETE = `\
If an address could not be checked because APP_SECRETS lacks the secret that encrypted it, the exit code is 1: add the
secret, and run the command again. If the secret is lost, use --allow-unreadable.`;

const ALLOW_UNREADABLE = flag(
  "--allow-unreadable",
  "succeed even if stored addresses or records could not be checked",
  true,
);
const EMAIL = { email: argument("<email>", TEXT), allowUnreadable: ALLOW_UNREADABLE };

export const people = noun("personal data of guests", {
  show: command({
    description: "list the forms that have a guest's email address, oldest first, such as for a request of access",
    input: EMAIL,
    help: `
The address is matched case-insensitively. Reads all stored addresses, because they are encrypted.`,
    examples: ["guest-forms people show guest@example.com"],
    call: ({ people }, { email }) => people.find({ email }),
    text: ({ forms }) => formatTable(forms, FORM_COLUMNS, "No form has this address."),
    problem: describeUnread,
  }),
  erase: command({
    description: "erase a guest's email address from all forms, and delete unsent emails to it",
    input: EMAIL,
    help: `
The address is matched case-insensitively, also in forms that are created or changed meanwhile; if they keep coming, the
command fails: run it again. Forms and users stay, and an email that is being sent may still arrive. The erasure is audited.
Also prints a record, the time at which the erasure began and a hash of the address: keep it outside the database, because
\`people reapply\` needs it after a restore.

${INCOMPLETE}`,
    examples: [
      "guest-forms people erase guest@example.com",
      "guest-forms people erase guest@example.com --yes --json >> erasures.ndjson",
    ],
    async consequences({ people }, { email }) {
      const { forms, unreadable } = await people.find({ email });
      const unknown = unreadable > 0 ? ` ${count(unreadable, "address", "addresses")} could not be checked.` : "";
      return {
        text: `The address is erased for good from ${count(forms.length, "form", "forms")}, and unsent emails to it are deleted. The erasure is stored.${unknown} This look-up was audited.`,
        isDangerous: true,
      };
    },
    call: ({ people }, { email }) => people.erase({ email }),
    problem: describeUnread,
  }),
  erasures: command({
    description: "print the records of all erasures, oldest first, one JSON object per line",
    input: { since: option("--since <instant>", "only erasures since this ISO 8601 instant (default: all)", TEXT) },
    examples: ["guest-forms people erasures > erasures.ndjson"],
    call: ({ people }, input) => people.erasures(input),
    text: (records) => records.map((record) => JSON.stringify(record)).join("\n"),
  }),
  reapply: command({
    description: "repeat erasures after the database was restored from a backup",
    input: { records: argument("<file>", TEXT), allowUnreadable: ALLOW_UNREADABLE },
    help: `
Run it before the service starts on the restored database. The file has records of erasures, one JSON object per line,
in any order and more than once: what \`people erase --json\` and \`people erasures\` print. Erasures that the database
knows are skipped, and so are forms created after the erasure. Running it again changes nothing. If a line is malformed,
nothing is erased. \`unknownSecret\` counts erasures made with a secret that APP_SECRETS does not list.

${INCOMPLETE} The same holds for records of another secret.`,
    examples: ["guest-forms people reapply erasures.ndjson"],
    async call({ people }, { records }) {
      const { readErasureFile } = await import("./actions/erasure-file.js");
      return people.reapply({ records: await readErasureFile(records) });
    },
    problem: describeUnread,
  }),
});

interface ErasureOptions {
  allowUnreadable: true | undefined;
}

/** Says what an erasure could not check, and what to do. */
function describeUnread(
  { unreadable, unknownSecret = 0 }: { unreadable: number; unknownSecret?: number },
  { allowUnreadable }: ErasureOptions,
): string | undefined {
  const what = [
    unreadable > 0 && `${count(unreadable, "address", "addresses")} could not be checked`,
    unknownSecret > 0 && `${count(unknownSecret, "erasure", "erasures")} could not be repeated`,
  ].filter(Boolean);
  if (allowUnreadable || what.length === 0) return undefined;
  const stored = unreadable + unknownSecret === 1 ? "it was" : "they were";
  return (
    `${what.join(" and ")}: add the secret that was used when ${stored} stored to APP_SECRETS, and run this again. ` +
    "If that secret is lost, use --allow-unreadable."
  );
}

const count = (number: number, one: string, many: string) => `${number} ${number === 1 ? one : many}`;
