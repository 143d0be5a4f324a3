import type { Command } from "commander";
import { notes } from "./help.js";
import { formatRecord } from "./print.js";
import { addDataCommand, callCore } from "./run.js";

export function addPeople(program: Command): void {
  const people = program.command("people").description("personal data of guests");
  addErase(people);
  addErasures(people);
  addReapply(people);
}

function addErase(people: Command): void {
  addDataCommand(people, "erase <email>")
    .description("erase a guest's email address from all forms, and delete unsent notifications to it")
    .addHelpText(
      "after",
      notes(`
The address is matched case-insensitively. The forms are kept, and the erasure is audited. Prints how many forms had the
address, how many notifications were deleted, and how many stored addresses could not be checked because no secret
decrypts them. Also prints a record, the time and a hash of the address: keep it outside the database, because
\`people reapply\` needs it after a restore. A notification that is being sent may still arrive. Users (hosts and key
holders) are not affected.

Examples:
  guest-forms people erase guest@example.com
  guest-forms people erase guest@example.com --json >> erasures.ndjson`),
    )
    .action((email: string, _options: object, command: Command) =>
      callCore(command, {
        call: (core) => core.people.erase({ email }),
        text: formatRecord,
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
  addDataCommand(people, "reapply <file>")
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

Example:
  guest-forms people reapply erasures.ndjson`),
    )
    .action((file: string, _options: object, command: Command) =>
      callCore(command, {
        call: async (core) => {
          const { readErasureFile } = await import("./erasure-file.js");
          return core.people.reapply({ records: await readErasureFile(file) });
        },
        text: formatRecord,
        options: { records: "FILE" },
      }),
    );
}
