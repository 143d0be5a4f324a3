import type { Command } from "commander";
import { notes } from "./help.js";
import { record } from "./print.js";
import { dataCommand, operate } from "./run.js";

/** `people erase`. */
export function addPeople(program: Command): void {
  const people = program.command("people").description("guests, of whom forms keep the e-mail address");
  dataCommand(people, "erase <email>")
    .description(
      "erase a guest's address from all forms, and what waits to be sent to it, on the guest's request",
    )
    .addHelpText(
      "after",
      notes(`
Upper and lower case do not matter. The forms stay, and are audited. It prints how many forms had the address, how many
notifications were dropped, and how many stored addresses no secret opens any more, so that nobody can tell whose they
are. What is being sent just now may still arrive. Hosts and holders of keys are users, and not touched.

Example:
  guest-forms people erase guest@example.com`),
    )
    .action((email: string, _options: object, command: Command) =>
      operate(command, {
        call: (core) => core.people.erase({ email }),
        text: record,
        options: { email: "EMAIL" },
      }),
    );
}
