import { useState } from "preact/hooks";
import { UNDELIVERED_EMAIL_STATES } from "../../../../server/constants.js";
import { CANCELLED, KNOWN_STATUSES, nextStatuses, STATUS_MEANINGS } from "../../../../server/forms/status.js";
import { shortId } from "../../short-id.js";
import { core, type Outputs } from "../core.js";
import { Badge, FormLink, formatStay, ListingLink, Time, UserLink } from "../parts/cells.js";
import { Copy } from "../parts/copy.js";
import { CallButton, FormButton } from "../parts/dialog.js";
import { findListingId, findUserId } from "../parts/form.js";
import { type Columns, type Filter, ListPage } from "../parts/list.js";
import { Facts, Loaded, Page, Section } from "../parts/page.js";
import { type Email, EmailState, Timeline } from "../parts/timeline.js";
import { useListing, useRead } from "../queries.js";

const COLUMNS: Columns<Outputs["forms"]["listAll"]["items"][number]> = {
  Form: ({ id }) => <FormLink id={id} />,
  Status: ({ status }) => <Badge text={status} />,
  Listing: ({ listingId }) => <ListingLink id={listingId} />,
  "Check-in": ({ checkInDate, listingId }) => <Time at={checkInDate} listingId={listingId} />,
  Guests: ({ numberOfGuests }) => numberOfGuests,
  Created: ({ createdAt }) => <Time at={createdAt} />,
  Email: ({ emailState }) => emailState && <Badge text={emailState} />,
};

const ARRIVALS = [1, 3, 7].map((days) => [`${days}`, days === 1 ? "Within a day" : `Within ${days} days`] as const);
const STATES = UNDELIVERED_EMAIL_STATES.map((state) => [state, state] as const);

const FILTERS: Filter[] = [
  { name: "status", label: "Status", options: [["", "All"], ...KNOWN_STATUSES.map((one) => [one, one] as const)] },
  { name: "checkInDay", label: "Check-in on", type: "date" },
  { name: "arrivesWithinDays", label: "Arrives, and has not registered", options: [["", "All"], ...ARRIVALS] },
  { name: "emailState", label: "Email", options: [["", "All"], ...STATES] },
  { name: "externalId", label: "External id" },
  { name: "listingId", label: "Listing’s id or external id", find: findListingId },
  { name: "userId", label: "User’s email address or id", find: findUserId },
];

export const FormsPage = () => (
  <ListPage
    title="Forms"
    filters={FILTERS}
    caption="Forms, newest first"
    read={({ arrivesWithinDays, ...given }, page) =>
      core.forms.listAll.query({
        ...(given as object),
        ...(arrivesWithinDays && { arrivesWithinDays: Number(arrivesWithinDays) }),
        ...page,
      })
    }
    columns={COLUMNS}
    empty="No form matches. To open a form by its id, or by the guest’s link, use Find at the top."
  >
    {({ listingId, userId }) => (
      <>
        {listingId && <p class="mb-0">On {<ListingLink id={listingId} />}</p>}
        {userId && <p class="mb-0">Forms of {<UserLink id={userId} />}</p>}
      </>
    )}
  </ListPage>
);

type OperatorForm = Outputs["forms"]["getAny"];
type Listing = Outputs["listings"]["getAny"];

const REFRESH = { everySeconds: 5 };
const MAX_EMAILS = 100;

export function FormPage({ id }: { id: string }) {
  const form = useRead(["form", id], () => core.forms.getAny.query({ id }), REFRESH);
  const emails = useRead(["emails", id], () => core.emails.list.query({ formId: id, limit: MAX_EMAILS }), REFRESH);
  const { data: listing } = useListing(form.data?.listingId);
  const name = (
    <small class="text-body-secondary">
      Form <Copy text={id} />
    </small>
  );
  return (
    <Page title={form.data && listing ? titleOf(form.data, listing) : `Form ${shortId(id)}`} actions={name}>
      <Loaded query={form}>
        {(loaded) => (
          <>
            <Loaded query={emails}>{({ items }) => <Invitation form={loaded} email={items.at(-1)} />}</Loaded>
            <StatusSection form={loaded} />
            <StaySection form={loaded} />
            <Timeline formId={id} emails={emails.data?.items ?? []} {...REFRESH} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

const titleOf = ({ id, checkInDate, checkOutDate }: OperatorForm, { title, timezone }: Listing) =>
  checkInDate && checkOutDate
    ? `${title}, ${formatStay(checkInDate, checkOutDate, timezone)}`
    : `${title}, form ${shortId(id)}`;

const StaySection = ({ form }: { form: OperatorForm }) => (
  <Section title="Stay">
    <Facts
      facts={{
        Listing: <ListingLink id={form.listingId} />,
        "Check-in": <Time at={form.checkInDate} listingId={form.listingId} />,
        "Check-out": <Time at={form.checkOutDate} listingId={form.listingId} />,
        Guests: form.numberOfGuests,
        Vehicles: form.numberOfVehicles,
        Pets: form.numberOfPets,
        "Guest’s email address": form.hasGuestEmail ? "Stored" : "None",
        Created: <Time at={form.createdAt} />,
        "Last change": <Time at={form.updatedAt} />,
        "External id": form.externalId && <Copy text={form.externalId} />,
        "Public id, in the guest’s link": form.publicId && <Copy text={form.publicId} />,
      }}
    />
  </Section>
);

const NO_EMAIL =
  "No invitation is recorded. None is sent if the stay was over when the form was created, and old records are deleted.";

/** Why the guest got the invitation or not, and how to send it. */
function Invitation({ form, email }: { form: OperatorForm; email: Email | undefined }) {
  const { id, status, hasGuestEmail, checkOutDate } = form;
  const isOver = checkOutDate !== null && Date.parse(checkOutDate) < Date.now();
  const reason = status !== "SENT" ? "the form is no longer SENT" : isOver && "the stay is over";
  const send = (
    <FormButton
      label={email?.state === "sent" ? "Send the invitation again …" : "Send the invitation …"}
      title="Send the invitation"
      class={email?.state === "failed" ? "btn-primary" : ""}
      submit="Send it now"
      send={() => core.emails.send.mutate({ formId: id })}
      done={({ state }) =>
        state === "running" ? "The invitation is already being sent." : "The invitation will be sent now."
      }
    >
      <p>It goes to the address that the form has. The host changes it with an update of the form.</p>
    </FormButton>
  );
  return (
    <Section title="Invitation" actions={hasGuestEmail && !reason && send}>
      <div>
        {email ? <EmailState {...email} /> : hasGuestEmail && NO_EMAIL}
        {hasGuestEmail || "The guest gets no invitation: the form has no email address."}
        {hasGuestEmail && reason && ` It cannot be sent now: ${reason}.`}
      </div>
    </Section>
  );
}

function StatusSection({ form: { id, status } }: { form: OperatorForm }) {
  const [last, setLast] = useState({ from: "", to: "" });
  const canUndo = last.to === status;
  const next = nextStatuses(status).filter((to) => to !== CANCELLED);
  const button = (to: string) => (
    <CallButton
      key={to}
      label={`${canUndo && to === last.from ? "Undo: set" : "Set"} ${to.replaceAll("_", " ")}`}
      // Not if another operator has set another status meanwhile.
      send={async () => ({ from: status, ...(await core.forms.setStatus.mutate({ id, status: to, from: status })) })}
      done={({ from, status: set }) => {
        setLast({ from, to: set });
        return `The form is ${set} now.`;
      }}
    />
  );
  return (
    <Section title="Form status">
      <p class="mb-0">
        <Badge text={status} /> {STATUS_MEANINGS[status]}
      </p>
      <div class="hstack flex-wrap gap-2">
        {canUndo && !next.includes(last.from) && button(last.from)}
        {next.map(button)}
        {nextStatuses(status).includes(CANCELLED) && (
          <FormButton
            label="Cancel the form …"
            title="Cancel the form"
            submit="Cancel it for good"
            send={() => core.forms.setStatus.mutate({ id, status: CANCELLED, from: status })}
            done={() => "The form is cancelled."}
          >
            <p>A waiting invitation ends, and the guest’s address is removed. This cannot be undone.</p>
          </FormButton>
        )}
      </div>
      <p class="text-body-secondary mb-0">Each change is audited in your name and sent to webhooks at once.</p>
    </Section>
  );
}
