import type { ComponentChildren } from "preact";
import { core, type Outputs } from "../core.js";
import { useRead } from "../queries.js";
import { Badge } from "./badge.js";
import type { Delivery } from "./deliveries.js";
import { EndpointLink, TraceLink } from "./links.js";
import { type Columns, Table } from "./list.js";
import { Section } from "./page.js";
import { Loaded } from "./states.js";
import { Time } from "./time.js";
import { type Entry, What, Who } from "./trail.js";

export type Email = Outputs["notifications"]["list"]["items"][number];

/** What happened to an invitation, or will. */
export function EmailWords({ state, lastError, attempts, runAt, sentAt }: Email): ComponentChildren {
  const reason = lastError ?? "the reason is not known";
  const isRefused = /\b5\d\d\b/.test(reason);
  switch (state) {
    case "sent":
      return (
        <>
          The invitation was sent <Time at={sentAt} />.{lastError && ` Before that it failed: ${lastError}.`}
        </>
      );
    case "failed":
      return `The invitation was not delivered: ${reason}. It is not tried again after ${attempts} ${attempts === 1 ? "attempt" : "attempts"}.${isRefused ? " The mail server refused the address or the message: ask the host for another address." : ""}`;
    case "expired":
      return "The invitation was not sent: the stay was over, or the form was past SENT, before it could be sent.";
    case "running":
      return "The invitation is being sent.";
    default:
      return (
        <>
          {lastError
            ? `The invitation was not delivered yet: ${lastError}. Attempt`
            : "The invitation waits to be sent,"}{" "}
          {lastError && `${attempts + 1} is`} due <Time at={runAt} />.
        </>
      );
  }
}

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

const MAX_ENTRIES = 1000;
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
    <Section title="Timeline">
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
  const what = (
    <>
      <Badge text={email.state} /> <EmailWords {...email} />
    </>
  );
  return at === null ? [] : [{ key: `email ${email.id}`, at, what, who: "Email" }];
}

const deliveryRow = ({ id, endpointId, createdAt, event, state, lastError }: Delivery): Row => ({
  key: `delivery ${id} ${endpointId}`,
  at: createdAt,
  what: (
    <>
      <Badge text={state} /> {event} to endpoint <EndpointLink id={endpointId} />
      {state !== "sent" && lastError && `: ${lastError}`}
    </>
  ),
  who: "Webhook",
});
