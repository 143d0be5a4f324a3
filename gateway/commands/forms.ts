import type { Command } from "commander";
import { KNOWN_STATUSES } from "../../server/forms/status.js";
import { record, table } from "./print.js";
import { dataCommand, operate } from "./run.js";
import { type NumberOrNone, orNull, wholeNumberOrNone } from "./values.js";

const NO_FORM = "There is no form with this id.";

/** `forms set-status`, `forms set-party`, `forms trail`. */
export function addForms(program: Command): void {
  const forms = program.command("forms").description("guest-registration forms");
  addSetStatus(forms);
  addSetParty(forms);
  addTrail(forms);
}

function addSetStatus(forms: Command): void {
  dataCommand(forms, "set-status <id> <status>")
    .description("set a form's status, in whatever order: a correction is audited as one")
    .option("--force", "also a status that is not known; it is shown as UNKNOWN")
    .addHelpText(
      "after",
      `
STATUS is one of ${KNOWN_STATUSES.join(", ")};
with --force, any 1 to 32 of the characters A-Z and _.

Example:
  guest-forms forms set-status 7d1f2b8c-3c55-4a80-a3ba-1de5a2f0c9e4 ACCEPTED`,
    )
    .action((id: string, status: string, { force }: { force?: boolean }, command: Command) =>
      operate(command, {
        call: (core) => core.forms.setStatus({ id, status, force }),
        text: record,
        options: { id: "ID", status: "STATUS" },
        missing: NO_FORM,
      }),
    );
}

interface PartyOptions {
  vehicles?: NumberOrNone;
  pets?: NumberOrNone;
}

function addSetParty(forms: Command): void {
  dataCommand(forms, "set-party <id>")
    .description("set how many vehicles and pets come, as far as the listing allows")
    .option("--vehicles <number>", "vehicles, or none for not stated", wholeNumberOrNone)
    .option("--pets <number>", "pets, or none for not stated", wholeNumberOrNone)
    .addHelpText(
      "after",
      "\nExample:\n  guest-forms forms set-party 7d1f2b8c-3c55-4a80-a3ba-1de5a2f0c9e4 --vehicles 1 --pets none",
    )
    .action((id: string, { vehicles, pets }: PartyOptions, command: Command) =>
      operate(command, {
        call: (core) =>
          core.forms.setParty({ id, numberOfVehicles: orNull(vehicles), numberOfPets: orNull(pets) }),
        text: record,
        options: { numberOfVehicles: "--vehicles", numberOfPets: "--pets" },
        missing: NO_FORM,
      }),
    );
}

function addTrail(forms: Command): void {
  dataCommand(forms, "trail <id>")
    .description("tell what happened to a form, newest first")
    .action((id: string, _options: object, command: Command) =>
      operate(command, {
        call: (core) => core.audit.trail({ subjectId: id, limit: 1000 }),
        text: (entries) =>
          table(
            entries.map((entry) => ({ ...entry, details: JSON.stringify(entry.details) })),
            ["at", "action", "actor", "actorId", "userId", "correlationId", "details"],
            "Nothing is known of a form with this id.",
          ),
      }),
    );
}
