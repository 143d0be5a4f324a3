import { useQueryClient } from "@tanstack/preact-query";
import { useEffect, useRef, useState } from "preact/hooks";
import { KNOWN_STATUSES, nextStatuses, STATUS_MEANINGS } from "../../../../server/forms/status.js";
import { CallFailed, core, type Outputs, toFailure } from "../core.js";
import { Action } from "../parts/action.js";
import { Badge } from "../parts/badge.js";
import { Copy } from "../parts/copy.js";
import { ListingLink } from "../parts/links.js";
import { Facts, Page, Section } from "../parts/page.js";
import { Loaded } from "../parts/states.js";
import { Time } from "../parts/time.js";
import { type Email, EmailWords, Timeline } from "../parts/timeline.js";
import { useChange, useRead } from "../queries.js";
import { StayTime } from "./forms.js";

type OperatorForm = Outputs["forms"]["getAny"];

const IN_PROGRESS = ["waiting", "running", "retrying"];
const REFRESH_SECONDS = 3;
const MAX_EMAILS = 100;

export function FormPage({ id }: { id: string }) {
  const form = useRead(["form", id], () => core.forms.getAny.query({ id }));
  const emails = useRead(["emails", id], () => core.notifications.list.query({ formId: id, limit: MAX_EMAILS }), {
    everySeconds: (data) => data?.items.some(({ state }) => IN_PROGRESS.includes(state)) && REFRESH_SECONDS,
  });
  useRereadForm(id, emails.data?.items);
  return (
    <Page title={`Form ${id.slice(0, 8)}`}>
      <Loaded query={form}>
        {(loaded) => (
          <div class="stack">
            <Loaded query={emails}>{({ items }) => <EmailState form={loaded} emails={items} />}</Loaded>
            <div class="split">
              <div class="stack">
                <StatusSection form={loaded} />
                <StaySection form={loaded} />
              </div>
              <Timeline formId={id} emails={emails.data?.items ?? []} />
            </div>
          </div>
        )}
      </Loaded>
    </Page>
  );
}

/** Reads the form and its timeline again when the state of an email has changed. */
function useRereadForm(id: string, emails: Email[] | undefined) {
  const client = useQueryClient();
  const states = emails?.map(({ state }) => state).join();
  const before = useRef(states);
  useEffect(() => {
    if (before.current !== undefined && before.current !== states) {
      for (const queryKey of [
        ["form", id],
        ["timeline", id],
      ])
        void client.invalidateQueries({ queryKey });
    }
    before.current = states;
  }, [states]);
}

const StaySection = ({ form }: { form: OperatorForm }) => (
  <Section title="Stay">
    <Facts
      of={[
        ["Listing", <ListingLink id={form.listingId} />],
        ["Check-in", <StayTime at={form.checkInDate} listingId={form.listingId} />],
        ["Check-out", <StayTime at={form.checkOutDate} listingId={form.listingId} />],
        ["Guests", form.numberOfGuests],
        ["Vehicles", form.numberOfVehicles],
        ["Pets", form.numberOfPets],
        ["Guest’s email address", form.hasGuestEmail ? "Stored" : "None"],
        ["Created", <Time at={form.createdAt} />],
        ["Form id", <Copy text={form.id} />],
        ["Public id, in the guest’s link", form.publicId && <Copy text={form.publicId} />],
      ]}
    />
  </Section>
);

/** Why the guest got the invitation or not, and how to send it. `emails`: oldest first. */
function EmailState({ form, emails }: { form: OperatorForm; emails: Email[] }) {
  const email = emails.at(-1);
  const nothingSent = form.hasGuestEmail
    ? "No invitation is recorded. None is sent if the stay was over when the form was created, and old records are deleted."
    : "The guest gets no invitation: the form has no email address.";
  const { status, hasGuestEmail, checkOutDate } = form;
  const isOver = checkOutDate !== null && Date.parse(checkOutDate) < Date.now();
  const reason = status !== "SENT" ? "the form is no longer SENT" : isOver && "the stay is over";
  return (
    <section class={`card banner ${email?.state === "failed" ? "bad" : ""}`} aria-label="Invitation">
      <p role="status">
        {email && <Badge of={email.state} />} {email ? <EmailWords email={email} /> : nothingSent}
        {hasGuestEmail && reason && <small class="quiet"> It cannot be sent now: {reason}.</small>}
      </p>
      {hasGuestEmail && !reason && (
        <Action
          label={email?.state === "sent" ? "Send the invitation again …" : "Send the invitation …"}
          title="Send the invitation"
          class={email?.state === "failed" ? "primary" : ""}
          submit="Send it now"
          send={() => core.notifications.send.mutate({ formId: form.id })}
          done={({ state }) =>
            state === "running" ? "The invitation is already being sent." : "The invitation will be sent now."
          }
        >
          <Preview id={form.id} />
        </Action>
      )}
    </section>
  );
}

function Preview({ id }: { id: string }) {
  const preview = useRead(["preview", id], () => core.notifications.preview.query({ formId: id }));
  return (
    <Loaded query={preview}>
      {({ subject, text, language }) => (
        <div class="stack">
          <p>
            <strong>{subject}</strong> <span class="quiet">in language {language}</span>
          </p>
          <iframe title="The invitation" sandbox="" src={`/console/emails/${id}.html`} />
          <details>
            <summary>As text</summary>
            <pre>{text}</pre>
          </details>
        </div>
      )}
    </Loaded>
  );
}

interface Move {
  from: string;
  to: string;
}

/** Sets the status only if the form is still in the one that the operator saw. This version cannot name an unknown one. */
async function setStatus({ id }: OperatorForm, { from, to }: Move) {
  try {
    return await core.forms.setStatus.mutate({ id, status: to, ...(KNOWN_STATUSES.includes(from) && { from }) });
  } catch (error) {
    const failure = toFailure(error);
    const conflict = failure.fields.find(({ field }) => field === "from");
    if (!conflict) throw error;
    const message = `Not changed: another operator changed it first. Now ${conflict.issue}.`;
    throw new CallFailed({ ...failure, message, fields: [] });
  }
}

/** The button that was pressed is gone. */
const focus = (button: HTMLElement | null) => button?.focus();

const toldStatus = ({ status }: { status: string }) => `The form is ${status} now.`;

function StatusSection({ form }: { form: OperatorForm }) {
  const { status } = form;
  const [last, setLast] = useState<Move>();
  const change = useChange((move: Move) => setStatus(form, move), toldStatus, "");
  const move = (to: string) =>
    change.isRunning() || change.mutate({ from: status, to }, { onSuccess: () => setLast({ from: status, to }) });
  const next = nextStatuses(status);
  const others = KNOWN_STATUSES.filter((one) => one !== status && !next.includes(one));
  const canUndo = last?.to === status && KNOWN_STATUSES.includes(last.from);
  return (
    <Section title="Form status">
      <p>
        <Badge of={status} /> {STATUS_MEANINGS[status]}
      </p>
      {last && canUndo && (
        <p>
          You changed it from {last.from} to {last.to}.{" "}
          <button key={last.from} ref={focus} type="button" disabled={change.isPending} onClick={() => move(last.from)}>
            Undo: set {last.from}
          </button>
        </p>
      )}
      <div class="actions">
        {next.map((to) => (
          <button key={to} type="button" disabled={change.isPending} onClick={() => move(to)}>
            Set {to.replaceAll("_", " ")}
          </button>
        ))}
        <Action
          label="Other status …"
          title="Set another status"
          submit="Set the status"
          fields={[
            {
              name: "status",
              label: "Status",
              type: "choice",
              required: true,
              options: [["", "Choose …"], ...others.map(withMeaning)],
            },
          ]}
          send={({ status: to }) => setStatus(form, { from: status, to: `${to}` })}
          done={toldStatus}
          onDone={(result) => setLast({ from: status, to: result.status })}
        >
          <p>
            The form is <Badge of={status} />. The audit trail records a change out of order as a correction.
            {status === "UNKNOWN" && " This version does not know the status, so it cannot be set back here."}
          </p>
        </Action>
      </div>
      <p class="quiet">Each change, also an undo, is audited in your name and sent to webhooks at once.</p>
    </Section>
  );
}

const withMeaning = (status: string) =>
  [status, `${status}: ${STATUS_MEANINGS[status as keyof typeof STATUS_MEANINGS]}`] as const;
