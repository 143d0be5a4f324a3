import { type Command, InvalidArgumentError, Option } from "commander";
import { MAX_LIMIT } from "../../server/constants.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { KNOWN_STATUSES } from "../../server/forms/status.js";
import { addDataCommand, addListCommand, USER_REFERENCE } from "../cli/data-command.js";
import { formatRecord, formatTable } from "../cli/print.js";
import { type NumberOrNone, noneToNull, parseWholeNumberOrNone } from "../cli/values.js";

export const NO_FORM = "There is no form with this id, public id or link.";

const NO_EMAIL = `There are no emails about this form: its stay was over when it was created, an update added the address, or they are
past their retention. \`guest-forms emails send\` sends the invitation.`;

const NO_ADDRESS = `There are no emails about this form, and no address: it was created without one, or it was erased, which
\`guest-forms forms trail\` shows.`;

interface ListOptions {
  listing?: string;
  user?: string;
  status?: string;
  checkIn?: string;
}

interface PartyOptions {
  form: string;
  vehicles?: NumberOrNone;
  pets?: NumberOrNone;
}

export const FORM_HELP =
  "FORM is the form's id, its public id (behind -- if it begins with -), or the guest's whole link.";

export function addForms(program: Command): void {
  const forms = program.command("forms").description("guest-registration forms");
  addListCommand(forms, "list", {
    description: "list forms, newest first",
    options: [
      new Option("--listing <listing>", "only forms on this listing; an id or external id"),
      new Option("--user <user>", `only forms in scope of this user's keys; an ${USER_REFERENCE} (default: all)`),
      new Option("--status <status>", "only forms in this status").choices(KNOWN_STATUSES),
      new Option(
        "--check-in <day>",
        "only forms with check-in on this day in the listing's time zone, such as 2027-07-01",
      ),
    ],
    help: `
Example:
  guest-forms forms list --listing loft-1 --check-in 2027-07-01`,
    call: async (core, { listing, user, checkIn, ...page }: ListOptions, find) =>
      core.forms.listAll({
        ...page,
        checkInDay: checkIn,
        listingId: await find.findListing("--listing", listing),
        userId: await find.findUser("--user", user),
      }),
    table: (items) => formatForms(items, "There are no forms."),
    optionNames: { checkInDay: "--check-in" },
  });
  addDataCommand(forms, "show <form>", {
    description: "show a form, the emails about it, and whether the guest's address is stored, but not the address",
    help: `${FORM_HELP}

Example:
  guest-forms forms show https://app.example.com/register/V1StGXR8_Z5jdHi6B-myT`,
    async call(core, { form }: { form: string }, { findForm }) {
      const id = await findForm(form);
      const [found, { items }] = await Promise.all([
        core.forms.getAny({ id }),
        core.emails.list({ formId: id, limit: MAX_LIMIT }),
      ]);
      return { ...found, emails: items.map(({ formId: _formId, ...email }) => email) };
    },
    text: ({ emails, ...form }) =>
      `${formatRecord(form)}\n\n${formatTable(
        emails,
        ["id", "state", "attempts", "runAt", "sentAt", "lastError"],
        form.hasGuestEmail ? NO_EMAIL : NO_ADDRESS,
      )}`,
    notFound: NO_FORM,
  });
  addDataCommand(forms, "set-status <form> <status>", {
    description: "set a form's status; any change is allowed, and one out of order is audited as a correction",
    options: [
      new Option("--from <status>", "only if this is the form's status now"),
      new Option("--force", "allow an unknown status; clients see it as UNKNOWN"),
    ],
    help: `${FORM_HELP}
STATUS is one of ${KNOWN_STATUSES.join(", ")};
with --force, any 1 to 32 of the characters A-Z and _.

Example:
  guest-forms forms set-status 7d1f2b8c-3c55-4a80-a3ba-1de5a2f0c9e4 ACCEPTED`,
    call: async (
      core,
      { form, ...change }: { form: string; status: string; from?: string; force?: true },
      { findForm },
    ) => core.forms.setStatus({ id: await findForm(form), ...change }),
    optionNames: { status: "STATUS" },
    notFound: NO_FORM,
  });
  addDataCommand(forms, "set-party <form>", {
    description: "set the number of vehicles, of pets, or both, within the listing's rules",
    options: [
      new Option("--vehicles <number>", "number of vehicles, or none to unset it").argParser(parseWholeNumberOrNone),
      new Option("--pets <number>", "number of pets, or none to unset it").argParser(parseWholeNumberOrNone),
    ],
    help: `${FORM_HELP}

Example:
  guest-forms forms set-party 7d1f2b8c-3c55-4a80-a3ba-1de5a2f0c9e4 --vehicles 1 --pets none`,
    check({ vehicles, pets }: PartyOptions) {
      if (vehicles === undefined && pets === undefined)
        throw new InvalidArgumentError("Give --vehicles, --pets or both.");
    },
    call: async (core, { form, vehicles, pets }: PartyOptions, { findForm }) =>
      core.forms.setParty({
        id: await findForm(form),
        numberOfVehicles: noneToNull(vehicles),
        numberOfPets: noneToNull(pets),
      }),
    optionNames: { numberOfVehicles: "--vehicles", numberOfPets: "--pets" },
    notFound: NO_FORM,
  });
  addDataCommand(forms, "trail <form>", {
    description: "show the audit trail of a form, newest first",
    help: FORM_HELP,
    call: async (core, { form }: { form: string }, { findForm }) =>
      core.audit.trail({ subjectId: await findForm(form), limit: 1000 }),
    notFound: NO_FORM,
    text: (entries) =>
      formatTable(
        entries.map((entry) => ({ ...entry, details: JSON.stringify(entry.details) })),
        ["at", "action", "actor", "actorId", "actorName", "userId", "correlationId", "details"],
        "No audit entries for this form id.",
      ),
  });
}

export const formatForms = (forms: readonly FormV1[], none: string) =>
  formatTable(
    forms.map((form) => ({
      ...form,
      checkIn: formatMinute(form.checkInDate),
      checkOut: formatMinute(form.checkOutDate),
      guests: form.numberOfGuests,
    })),
    ["id", "status", "checkIn", "checkOut", "guests", "listingId"],
    none,
  );

const formatMinute = (instant: string | null) => instant && `${instant.slice(0, 16)}Z`;
