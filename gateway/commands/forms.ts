import type { Command } from "commander";
import { KNOWN_STATUSES } from "../../server/forms/status.js";
import { notes } from "./help.js";
import { formatPage, type PageOptions, withPages } from "./pages.js";
import { formatRecord, formatTable } from "./print.js";
import { addDataCommand, callCore } from "./run.js";
import { type NumberOrNone, noneToNull, parseWholeNumberOrNone } from "./values.js";

const NO_FORM = "There is no form with this id.";

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
  withPages(addDataCommand(forms, "list"))
    .description("list forms, newest first")
    .option("--listing <id>", "only forms on this listing")
    .option("--user <user>", "only forms in scope of this user's keys; an id or email address (default: all)")
    .action(({ listing, user, limit, after }: ListOptions, command: Command) =>
      callCore(command, {
        call: async (core, findUser) => {
          const userId = user && (await findUser("--user", user));
          return core.forms.listAll({ listingId: listing, userId, limit, cursor: after });
        },
        text: (page) =>
          formatPage(
            formatTable(
              page.items.map((form) => ({
                ...form,
                checkIn: formatMinute(form.checkInDate),
                checkOut: formatMinute(form.checkOutDate),
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

const formatMinute = (instant: string | null) => instant && `${instant.slice(0, 16)}Z`;

function addShow(forms: Command): void {
  addDataCommand(forms, "show <id>")
    .description("show a form, without the guest's email address")
    .action((id: string, _options: object, command: Command) =>
      callCore(command, {
        call: (core) => core.forms.getAny({ id }),
        text: formatRecord,
        notFound: NO_FORM,
      }),
    );
}

function addSetStatus(forms: Command): void {
  addDataCommand(forms, "set-status <id> <status>")
    .description(
      "set a form's status; any change is allowed, and one out of order is audited as a correction",
    )
    .option("--force", "allow an unknown status; clients see it as UNKNOWN")
    .addHelpText(
      "after",
      notes(`
STATUS is one of ${KNOWN_STATUSES.join(", ")};
with --force, any 1 to 32 of the characters A-Z and _.

Example:
  guest-forms forms set-status 7d1f2b8c-3c55-4a80-a3ba-1de5a2f0c9e4 ACCEPTED`),
    )
    .action((id: string, status: string, { force }: { force?: boolean }, command: Command) =>
      callCore(command, {
        call: (core) => core.forms.setStatus({ id, status, force }),
        text: formatRecord,
        options: { id: "ID", status: "STATUS" },
        notFound: NO_FORM,
      }),
    );
}

interface PartyOptions {
  vehicles?: NumberOrNone;
  pets?: NumberOrNone;
}

function addSetParty(forms: Command): void {
  addDataCommand(forms, "set-party <id>")
    .description("set the number of vehicles and pets, within the listing's rules")
    .option("--vehicles <number>", "number of vehicles, or none to unset it", parseWholeNumberOrNone)
    .option("--pets <number>", "number of pets, or none to unset it", parseWholeNumberOrNone)
    .addHelpText(
      "after",
      notes(
        "\nExample:\n  guest-forms forms set-party 7d1f2b8c-3c55-4a80-a3ba-1de5a2f0c9e4 --vehicles 1 --pets none",
      ),
    )
    .action((id: string, { vehicles, pets }: PartyOptions, command: Command) =>
      callCore(command, {
        call: (core) =>
          core.forms.setParty({ id, numberOfVehicles: noneToNull(vehicles), numberOfPets: noneToNull(pets) }),
        text: formatRecord,
        options: { numberOfVehicles: "--vehicles", numberOfPets: "--pets" },
        notFound: NO_FORM,
      }),
    );
}

function addTrail(forms: Command): void {
  addDataCommand(forms, "trail <id>")
    .description("show the audit trail of a form, newest first")
    .action((id: string, _options: object, command: Command) =>
      callCore(command, {
        call: (core) => core.audit.trail({ subjectId: id, limit: 1000 }),
        text: (entries) =>
          formatTable(
            entries.map((entry) => ({ ...entry, details: JSON.stringify(entry.details) })),
            ["at", "action", "actor", "actorId", "userId", "correlationId", "details"],
            "No audit entries for this form id.",
          ),
      }),
    );
}
