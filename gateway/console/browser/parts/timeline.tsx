import type { ComponentChildren } from "preact";
import { core, type Outputs } from "../core.js";
import { useRead } from "../queries.js";
import { Badge, EndpointLink, Time, TraceLink } from "./cells.js";
import { Copy } from "./copy.js";
import { type Columns, Table } from "./list.js";
import { Loaded, Section } from "./page.js";
import { type Entry, What, Who } from "./trail.js";

type Delivery = Outputs["webhooks"]["deliveries"]["items"][number];
export type Email = Outputs["emails"]["list"]["items"][number];

const STATE_TEXTS: Record<Email["state"], string> = {
  waiting: "The invitation waits to be sent, due",
  running: "The invitation is being sent",
  retrying: "The invitation was not delivered yet. The next attempt is due",
  failed: "The invitation was not delivered, and is not tried again",
  bounced: "The mail server accepted the invitation, and it came back",
  dismissed: "The invitation was not delivered, and an operator has dealt with it, or nobody needs it anymore",
  expired: "The invitation was not sent: the stay was over, or the form was past SENT",
  sent: "The mail server accepted the invitation",
};

/** States in which the last error is the reason. */
const UNDELIVERED: readonly Email["state"][] = ["failed", "bounced", "dismissed"];

/** What happened to an invitation, or will, and why. */
export const EmailState = ({ state, lastError, runAt, sentAt, messageId, reply }: Email) => (
  <>
    <Badge text={state} /> {STATE_TEXTS[state]}
    {(sentAt ?? runAt) && " "}
    <Time at={sentAt ?? runAt} none="" />.{" "}
    {lastError && `${UNDELIVERED.includes(state) ? "Reason" : "An earlier attempt failed"}: ${lastError}.`}
    {messageId && (
      <small class="d-block text-body-secondary">
        Message-ID <Copy text={messageId} /> {reply && `The mail server’s answer: ${reply}`}
      </small>
    )}
  </>
);

interface Row {
  key: string;
  at: string;
  what: ComponentChildren;
  who: ComponentChildren;
  trace?: string | undefined;
}

const COLUMNS: Columns<Row> = {
  When: ({ at }) => <Time at={at} />,
  What: ({ what }) => what,
  Who: ({ who }) => who,
  Request: ({ trace }) => trace && <TraceLink id={trace} />,
};

const MAX_ENTRIES = 200;
const MAX_DELIVERIES = 100;

/** Changes, emails and webhook deliveries of a form as one list. */
export function Timeline({ formId, emails, everySeconds }: { formId: string; emails: Email[]; everySeconds: number }) {
  const read = () =>
    Promise.all([
      core.audit.trail.query({ subjectId: formId, limit: MAX_ENTRIES }),
      core.webhooks.deliveries.query({ formId, limit: MAX_DELIVERIES }),
    ]);
  const trail = useRead(["timeline", formId], read, { everySeconds });
  return (
    <Section title={`Timeline, of at most ${MAX_ENTRIES} changes`}>
      <Loaded query={trail}>
        {([entries, { items }]) => (
          <Table
            caption="Changes, emails and webhooks, newest first"
            columns={COLUMNS}
            rows={[...emails.flatMap(emailRow), ...items.map(deliveryRow), ...entries.map(entryRow)].sort((a, b) =>
              b.at.localeCompare(a.at),
            )}
            keyOf={({ key }) => key}
            empty="Nothing is recorded. Old entries of the audit trail are deleted."
          />
        )}
      </Loaded>
    </Section>
  );
}

const entryRow = (entry: Entry): Row => ({
  key: `entry ${entry.id}`,
  at: entry.at,
  what: <What {...entry} />,
  who: <Who {...entry} />,
  trace: entry.correlationId,
});

/** None for one that expired before it was tried: the entry of that says so. */
function emailRow(email: Email): Row[] {
  const at = email.sentAt ?? email.lastAttemptAt ?? email.runAt;
  return at === null ? [] : [{ key: `email ${email.id}`, at, what: <EmailState {...email} />, who: "Email" }];
}

type DeliveryStateProps = Pick<Delivery, "state" | "event" | "endpointId"> & { lastError?: string | null };

export const DeliveryState = ({ state, event, endpointId, lastError }: DeliveryStateProps) => (
  <>
    <Badge text={state} /> {event} to endpoint <EndpointLink id={endpointId} />
    {state !== "sent" && lastError && `: ${lastError}`}
  </>
);

const deliveryRow = (delivery: Delivery): Row => ({
  key: `delivery ${delivery.id} ${delivery.endpointId}`,
  at: delivery.createdAt,
  what: <DeliveryState {...delivery} />,
  who: "Webhook",
});
