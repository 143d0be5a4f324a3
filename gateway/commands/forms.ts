import type { Command } from "commander";
import { KNOWN_STATUSES } from "../../server/forms/status.js";
import { notes } from "./help.js";
import { type PageOptions, paged, withPages } from "./pages.js";
import { record, table } from "./print.js";
import { dataCommand, operate } from "./run.js";
import { type NumberOrNone, orNull, wholeNumberOrNone } from "./values.js";

const NO_FORM = "There is no form with this id.";

/** `forms list`, `forms show`, `forms set-status`, `forms set-party`, `forms trail`. */
export function addForms(program: Command): void {
  const forms = program.command("forms").description("guest-registration forms");
  addList(forms);
  addShow(forms);
  addSetStatus(forms);
  addSetParty(forms);
  addTrail(forms);
}

interface ListOptions extends PageOptions {
  listing?: string;
  user?: string;
}

function addList(forms: Command): void {
  withPages(dataCommand(forms, "list"))
    .description("list forms, newest first")
    .option("--listing <id>", "only those on this listing")
    .option("--user <user>", "only those that this user's keys see; an id or e-mail address")
    .action(({ listing, user, limit, after }: ListOptions, command: Command) =>
      operate(command, {
        call: async (core, findUser) => {
          const userId = user && (await findUser("--user", user));
          return core.forms.listAll({ listingId: listing, userId, limit, cursor: after });
        },
        text: (page) =>
          paged(
            table(
              page.items.map((form) => ({
                ...form,
                checkIn: toTheMinute(form.checkInDate),
                checkOut: toTheMinute(form.checkOutDate),
                guests: form.numberOfGuests,
              })),
              ["id", "status", "checkIn", "checkOut", "guests", "listingId"],
              "There are no forms.",
            ),
            page,
          ),
      }),
    );
}

const toTheMinute = (instant: string | null) => instant && `${instant.slice(0, 16)}Z`;

function addShow(forms: Command): void {
  dataCommand(forms, "show <id>")
    .description("show a form, without its guest's address")
    .action((id: string, _options: object, command: Command) =>
      operate(command, {
        call: (core) => core.forms.getAny({ id }),
        text: record,
        missing: NO_FORM,
      }),
    );
}

function addSetStatus(forms: Command): void {
  dataCommand(forms, "set-status <id> <status>")
    .description("set a form's status, in whatever order: a correction is audited as one")
    .option("--force", "also a status that is not known; it is shown as UNKNOWN")
    .addHelpText(
      "after",
      notes(`
STATUS is one of ${KNOWN_STATUSES.join(", ")};
with --force, any 1 to 32 of the characters A-Z and _.

Example:
  guest-forms forms set-status 7d1f2b8c-3c55-4a80-a3ba-1de5a2f0c9e4 ACCEPTED`),
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
      notes(
        "\nExample:\n  guest-forms forms set-party 7d1f2b8c-3c55-4a80-a3ba-1de5a2f0c9e4 --vehicles 1 --pets none",
      ),
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
