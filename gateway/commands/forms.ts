import { MAX_LIMIT, UNDELIVERED_EMAIL_STATES } from "../../server/constants.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { CANCELLED, KNOWN_STATUSES, nextStatuses } from "../../server/forms/status.js";
import { command, noun } from "../cli/command.js";
import { argument, flag, option, userFilter } from "../cli/fields.js";
import { list } from "../cli/list.js";
import { type Columns, formatRecord, formatTable } from "../cli/print.js";
import { FORM, LISTING_OPTION, oneOf, orNone, TEXT, WHOLE_NUMBER } from "../cli/readers.js";

export const NO_FORM = "There is no form with this id, external id, public id or link.";

export const FORM_HELP =
  "FORM is the form's id or its beginning, its external id, its public id, or the guest's whole link.";

const FORM_TEXTS = { notFound: NO_FORM, help: FORM_HELP };

export const FORM_ID = { ...argument("<form>", FORM), ...FORM_TEXTS };

/** An option that takes what `FORM_ID` takes. */
export const formOption = (description: string) => ({
  ...option("--form <form>", description, FORM),
  ...FORM_TEXTS,
});

const NO_EMAIL = `There are no emails about this form: its stay was over when it got the address, it was past SENT, or they are past their
retention. \`guest-forms emails send\` sends the invitation.`;

const NO_ADDRESS = `There are no emails about this form, and no address: it has none yet, it is cancelled, or the address was erased, which
\`guest-forms forms trail\` shows.`;

export const FORM_COLUMNS: Columns<FormV1> = [
  "id",
  "externalId",
  "status",
  ["checkIn", ({ checkInDate }) => formatMinute(checkInDate)],
  ["checkOut", ({ checkOutDate }) => formatMinute(checkOutDate)],
  ["guests", ({ numberOfGuests }) => numberOfGuests],
  "listingId",
];

export const forms = noun("guest-registration forms", {
  list: list({
    description: "list forms, newest first",
    input: {
      listingId: option("--listing <listing>", "only forms on this listing; an id or external id", LISTING_OPTION),
      userId: userFilter("forms in scope of this user's keys"),
      status: option("--status <status>", "only forms in this status", oneOf(KNOWN_STATUSES)),
      externalId: option("--external-id <id>", "only forms with exactly this external id", TEXT),
      checkInDay: option(
        "--check-in <day>",
        "only forms with check-in on this day in the listing's time zone, such as 2027-07-01",
        TEXT,
      ),
      arrivesWithinDays: option(
        "--arriving <days>",
        "only forms of guests who arrive within so many days and have not registered",
        WHOLE_NUMBER,
      ),
      emailState: option(
        "--email <state>",
        "only forms whose last invitation is in this state",
        oneOf(UNDELIVERED_EMAIL_STATES),
      ),
    },
    examples: ["guest-forms forms list --listing loft-1 --check-in 2027-07-01", "guest-forms forms list --arriving 3"],
    call: ({ forms }, input) => forms.listAll(input),
    columns: [...FORM_COLUMNS, ["email", ({ emailState }) => emailState]],
    none: "There are no forms.",
  }),
  show: command({
    description: "show a form, the emails about it, and whether the guest's address is stored, but not the address",
    input: { id: FORM_ID },
    examples: ["guest-forms forms show https://app.example.com/register/V1StGXR8_Z5jdHi6B-myT"],
    async call({ forms, emails }, { id }) {
      const [form, { items }] = await Promise.all([
        forms.getAny({ id }),
        emails.list({ formId: id, limit: MAX_LIMIT }),
      ]);
      return { ...form, emails: items.map(({ formId: _formId, ...email }) => email) };
    },
    text: ({ emails, ...form }) =>
      `${formatRecord(form)}\n\n${formatTable(
        emails,
        ["id", "state", "attempts", "runAt", "sentAt", "messageId", "reply", "lastError"],
        form.hasGuestEmail ? NO_EMAIL : NO_ADDRESS,
      )}`,
  }),
  "set-status": command({
    description:
      "set a form's status; any change is allowed, except of a cancelled form, and one out of order is audited as a correction",
    input: {
      id: FORM_ID,
      status: argument("<status>", TEXT),
      from: option("--from <status>", "only if this is the form's status now", TEXT),
      force: flag("--force", "allow an unknown status; clients see it as UNKNOWN", true),
    },
    help: `STATUS is one of ${KNOWN_STATUSES.join(", ")};
with --force, any 1 to 32 of the characters A-Z and _.`,
    examples: ["guest-forms forms set-status 7d1f2b8c-3c55-4a80-a3ba-1de5a2f0c9e4 ACCEPTED"],
    async consequences({ forms }, input) {
      const { status } = await forms.setStatus({ ...input, dryRun: true });
      return {
        text: describeChange(status, input.status),
        isDangerous: isOutOfOrder(status, input.status),
        // Not UNKNOWN, which hides the status.
        limits: isKnown(status) ? { from: status } : {},
      };
    },
    call: ({ forms }, input) => forms.setStatus(input),
  }),
  "set-party": command({
    description: "set the number of vehicles, of pets, or both, within the listing's rules",
    input: {
      id: FORM_ID,
      numberOfVehicles: option("--vehicles <number>", "number of vehicles, or none to unset it", orNone(WHOLE_NUMBER)),
      numberOfPets: option("--pets <number>", "number of pets, or none to unset it", orNone(WHOLE_NUMBER)),
    },
    examples: ["guest-forms forms set-party 7d1f2b8c-3c55-4a80-a3ba-1de5a2f0c9e4 --vehicles 1 --pets none"],
    noOption: "Give --vehicles, --pets or both.",
    call: ({ forms }, input) => forms.setParty(input),
  }),
  trail: command({
    description: "show the audit trail of a form, newest first",
    input: { subjectId: FORM_ID },
    call: ({ audit }, input) => audit.trail({ ...input, limit: 1000 }),
    text: (entries) =>
      formatTable(
        entries,
        [
          ...(["at", "action", "actor", "actorId", "actorName", "userId", "correlationId"] as const),
          ["details", ({ details }) => JSON.stringify(details)],
        ],
        "No audit entries for this form id.",
      ),
  }),
});

const isKnown = (status: string) => (KNOWN_STATUSES as readonly string[]).includes(status);

/** Whether the host could not set it next, or it cannot be undone. */
const isOutOfOrder = (from: string, to: string) =>
  from !== to && (to === CANCELLED || !nextStatuses(from).includes(to));

function describeChange(from: string, to: string): string {
  if (from === to) return `The form is ${from} already.`;
  if (to === CANCELLED)
    return `The form is ${from}. It is cancelled for good: a waiting invitation ends, and the guest's address is removed.`;
  const order = isOutOfOrder(from, to) ? `${to} is out of order, and is audited as a correction.` : `${to} comes next.`;
  return `The form is ${from}. ${order} Webhooks send the change at once.`;
}

const formatMinute = (instant: string | null) => instant && `${instant.slice(0, 16)}Z`;
