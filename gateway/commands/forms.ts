import { type Command, Option } from "commander";
import { KNOWN_STATUSES } from "../../server/forms/status.js";
import { addDataCommand, addListCommand } from "../cli/data-command.js";
import { formatTable } from "../cli/print.js";
import { type NumberOrNone, noneToNull, parseWholeNumberOrNone } from "../cli/values.js";

const NO_FORM = "There is no form with this id.";

export function addForms(program: Command): void {
  const forms = program.command("forms").description("guest-registration forms");
  addListCommand(forms, "list", {
    description: "list forms, newest first",
    options: [
      new Option("--listing <id>", "only forms on this listing"),
      new Option("--user <user>", "only forms in scope of this user's keys; an id or email address (default: all)"),
    ],
    call: async (core, { listing, user, ...page }: { listing?: string; user?: string }, findUser) =>
      core.forms.listAll({ ...page, listingId: listing, userId: await findUser("--user", user) }),
    table: (items) =>
      formatTable(
        items.map((form) => ({
          ...form,
          checkIn: formatMinute(form.checkInDate),
          checkOut: formatMinute(form.checkOutDate),
          guests: form.numberOfGuests,
        })),
        ["id", "status", "checkIn", "checkOut", "guests", "listingId"],
        "There are no forms.",
      ),
  });
  addDataCommand(forms, "show <id>", {
    description: "show a form, without the guest's email address",
    call: (core, { id }: { id: string }) => core.forms.getAny({ id }),
    notFound: NO_FORM,
  });
  addDataCommand(forms, "set-status <id> <status>", {
    description: "set a form's status; any change is allowed, and one out of order is audited as a correction",
    options: [new Option("--force", "allow an unknown status; clients see it as UNKNOWN")],
    help: `
STATUS is one of ${KNOWN_STATUSES.join(", ")};
with --force, any 1 to 32 of the characters A-Z and _.

Example:
  guest-forms forms set-status 7d1f2b8c-3c55-4a80-a3ba-1de5a2f0c9e4 ACCEPTED`,
    call: (core, given: { id: string; status: string; force?: true }) => core.forms.setStatus(given),
    optionNames: { id: "ID", status: "STATUS" },
    notFound: NO_FORM,
  });
  addDataCommand(forms, "set-party <id>", {
    description: "set the number of vehicles and pets, within the listing's rules",
    options: [
      new Option("--vehicles <number>", "number of vehicles, or none to unset it").argParser(parseWholeNumberOrNone),
      new Option("--pets <number>", "number of pets, or none to unset it").argParser(parseWholeNumberOrNone),
    ],
    help: "Example:\n  guest-forms forms set-party 7d1f2b8c-3c55-4a80-a3ba-1de5a2f0c9e4 --vehicles 1 --pets none",
    call: (core, { id, vehicles, pets }: { id: string; vehicles?: NumberOrNone; pets?: NumberOrNone }) =>
      core.forms.setParty({ id, numberOfVehicles: noneToNull(vehicles), numberOfPets: noneToNull(pets) }),
    optionNames: { numberOfVehicles: "--vehicles", numberOfPets: "--pets" },
    notFound: NO_FORM,
  });
  addDataCommand(forms, "trail <id>", {
    description: "show the audit trail of a form, newest first",
    call: (core, { id }: { id: string }) => core.audit.trail({ subjectId: id, limit: 1000 }),
    text: (entries) =>
      formatTable(
        entries.map((entry) => ({ ...entry, details: JSON.stringify(entry.details) })),
        ["at", "action", "actor", "actorId", "userId", "correlationId", "details"],
        "No audit entries for this form id.",
      ),
  });
}

const formatMinute = (instant: string | null) => instant && `${instant.slice(0, 16)}Z`;
