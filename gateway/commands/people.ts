import type { Command } from "commander";
import { notes } from "./help.js";
import { formatRecord } from "./print.js";
import { addDataCommand, callCore } from "./run.js";

export function addPeople(program: Command): void {
  const people = program.command("people").description("personal data of guests");
  addDataCommand(people, "erase <email>")
    .description("erase a guest's email address from all forms, and delete unsent notifications to it")
    .addHelpText(
      "after",
      notes(`
The address is matched case-insensitively. The forms are kept, and the erasure is audited. Prints how many forms had the
address, how many notifications were deleted, and how many stored addresses could not be checked because no secret
decrypts them. A notification that is being sent may still arrive. Users (hosts and key holders) are not affected.

Example:
  guest-forms people erase guest@example.com`),
    )
    .action((email: string, _options: object, command: Command) =>
      callCore(command, {
        call: (core) => core.people.erase({ email }),
        text: formatRecord,
        options: { email: "EMAIL" },
      }),
    );
}
