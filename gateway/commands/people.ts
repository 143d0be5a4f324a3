import type { Command } from "commander";
import type { ErasureCounts, Reapplied } from "../../server/people/schema.js";
import { notes } from "./help.js";
import { formatRecord } from "./print.js";
import { addDataCommand, callCore } from "./run.js";

export function addPeople(program: Command): void {
  const people = program.command("people").description("personal data of guests");
  addErase(people);
  addErasures(people);
  addReapply(people);
}

interface ErasureOptions {
  allowUnreadable?: true;
}

const INCOMPLETE = `\
If an address could not be checked because APP_SECRETS lacks the secret that encrypted it, the exit code is 1: add the
secret, and run the command again. If the secret is lost, use --allow-unreadable.`;

const addErasureCommand = (people: Command, usage: string): Command =>
  addDataCommand(people, usage).option(
    "--allow-unreadable",
    "succeed even if stored addresses or records could not be checked",
  );

/** Says what an erasure could not check, and what to do. */
function describeUnread({ unreadable, unknownSecret = 0 }: ErasureCounts & Partial<Reapplied>) {
  const what = [
    unreadable > 0 && `${count(unreadable, "address", "addresses")} could not be checked`,
    unknownSecret > 0 && `${count(unknownSecret, "erasure", "erasures")} could not be repeated`,
  ].filter(Boolean);
  if (what.length === 0) return undefined;
  const stored = unreadable + unknownSecret === 1 ? "it was" : "they were";
  return (
    `${what.join(" and ")}: add the secret that was used when ${stored} stored to APP_SECRETS, and run this again. ` +
    "If that secret is lost, use --allow-unreadable."
  );
}

const count = (number: number, one: string, many: string) => `${number} ${number === 1 ? one : many}`;

const findProblem = ({ allowUnreadable }: ErasureOptions) =>
  allowUnreadable ? () => undefined : describeUnread;

function addErase(people: Command): void {
  addErasureCommand(people, "erase <email>")
    .description("erase a guest's email address from all forms, and delete unsent notifications to it")
    .addHelpText(
      "after",
      notes(`
The address is matched case-insensitively, also in forms that are created or changed while the command runs; if they keep
coming, it fails, and can be run again. The forms are kept, and the erasure is audited. Prints how many forms had the address, how many notifications were deleted, and
how many stored addresses could not be checked. Also prints a record, the time at which the erasure began and a hash of
the address: keep it outside the database, because \`people reapply\` needs it after a restore. A notification that is
being sent may still arrive. Users (hosts and key holders) are not affected.

${INCOMPLETE}

Examples:
  guest-forms people erase guest@example.com
  guest-forms people erase guest@example.com --json >> erasures.ndjson`),
    )
    .action((email: string, options: ErasureOptions, command: Command) =>
      callCore(command, {
        call: (core) => core.people.erase({ email }),
        text: formatRecord,
        problem: findProblem(options),
        options: { email: "EMAIL" },
      }),
    );
}

function addErasures(people: Command): void {
  addDataCommand(people, "erasures")
    .description("print the records of all erasures, oldest first, one JSON object per line")
    .option("--since <instant>", "only erasures since this ISO 8601 instant (default: all)")
    .addHelpText("after", notes("\nExample:\n  guest-forms people erasures > erasures.ndjson"))
    .action(({ since }: { since?: string }, command: Command) =>
      callCore(command, {
        call: (core) => core.people.erasures({ since }),
        text: (records) => records.map((record) => JSON.stringify(record)).join("\n"),
      }),
    );
}

function addReapply(people: Command): void {
  addErasureCommand(people, "reapply <file>")
    .description("repeat erasures after the database was restored from a backup")
    .addHelpText(
      "after",
      notes(`
Run it before the service starts on the restored database. The file has records of erasures, one JSON object per line,
in any order and more than once: what \`people erase --json\` and \`people erasures\` print. Erasures that the database
knows are skipped, and so are forms created after the erasure. Running it again changes nothing.

Prints how many erasures were applied, were already known, and were made with a secret that APP_SECRETS does not list;
how many forms had an erased address; how many notifications were deleted; and how many stored addresses could not be
checked. If a line is malformed, nothing is erased.

${INCOMPLETE} The same holds for records of another secret.

Example:
  guest-forms people reapply erasures.ndjson`),
    )
    .action((file: string, options: ErasureOptions, command: Command) =>
      callCore(command, {
        call: async (core) => {
          const { readErasureFile } = await import("./erasure-file.js");
          return core.people.reapply({ records: await readErasureFile(file) });
        },
        text: formatRecord,
        problem: findProblem(options),
        options: { records: "FILE" },
      }),
    );
}
