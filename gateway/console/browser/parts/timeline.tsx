import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { core, type Outputs } from "../core.js";
import { useRead } from "../queries.js";
import { Badge } from "./badge.js";
import type { Delivery } from "./deliveries.js";
import { type Entry, What, Who } from "./entry.js";
import { TraceLink } from "./links.js";
import { type Columns, Table } from "./list.js";
import { Section } from "./page.js";
import { Loaded } from "./states.js";
import { Ago, Time } from "./time.js";

export type Email = Outputs["notifications"]["list"]["items"][number];

/** What happened to an email, or will. */
export function EmailWords({ email: { state, lastError, attempts, runAt, sentAt } }: { email: Email }) {
  const reason = lastError ?? "the reason is not known";
  switch (state) {
    case "sent":
      return (
        <>
          The invitation was sent <Ago at={sentAt} />.{lastError && ` Before that it failed: ${lastError}.`}
        </>
      );
    case "failed":
      return `The invitation was not delivered: ${reason}. It is not tried again after ${attempts} ${attempts === 1 ? "attempt" : "attempts"}.${/\b5\d\d\b/.test(reason) ? " The mail server refused the address or the message: ask the host for another address." : ""}`;
    case "retrying":
      return (
        <>
          The invitation was not delivered yet: {reason}. Attempt {attempts + 1} is due <Ago at={runAt} />.
        </>
      );
    case "expired":
      return "The invitation was not sent: the stay was over, or the form was past SENT, before it could be sent.";
    case "running":
      return "The invitation is being sent.";
    default:
      return (
        <>
          The invitation waits to be sent, due <Ago at={runAt} />.
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
  When: ({ at }) => (
    <span class="nowrap">
      <Time at={at} />
      <small class="quiet">
        <Ago at={at} />
      </small>
    </span>
  ),
  What: ({ what }) => what,
  Who: ({ who }) => who,
  Request: ({ trace }) => trace && <TraceLink id={trace} />,
};

const FIRST_ENTRIES = 50;
const MAX_ENTRIES = 1000;
const MAX_DELIVERIES = 100;

/** Changes, emails and webhook deliveries of a form as one list. */
export function Timeline({ formId, emails }: { formId: string; emails: Email[] }) {
  const [limit, setLimit] = useState(FIRST_ENTRIES);
  const read = async () => {
    const [entries, deliveries] = await Promise.all([
      core.audit.trail.query({ subjectId: formId, limit }),
      core.webhooks.deliveries.query({ formId, limit: MAX_DELIVERIES }),
    ]);
    return { entries, deliveries: deliveries.items };
  };
  const trail = useRead(["timeline", formId, limit], read, { isPaged: true });
  return (
    <Section title="Timeline">
      <Loaded query={trail}>
        {({ entries, deliveries }) => {
          const hasOlder = entries.length >= limit;
          const oldest = hasOlder ? (entries.at(-1)?.at ?? "") : "";
          const events = [...new Set(deliveries.map(({ id }) => id))].map((id) =>
            deliveries.filter((one) => one.id === id),
          );
          const rows = [...emails.flatMap(emailRow), ...events.map(eventRow), ...entries.map(entryRow)];
          return (
            <>
              <Table
                caption="Changes, emails and webhooks, newest first"
                columns={COLUMNS}
                rows={rows.filter(({ at }) => at >= oldest).sort((a, b) => b.at.localeCompare(a.at))}
                keyOf={({ key }) => key}
                empty="Nothing is recorded. Old entries of the audit trail are deleted."
              />
              {hasOlder && limit < MAX_ENTRIES && (
                <p class="pager">
                  <button type="button" onClick={() => setLimit(MAX_ENTRIES)}>
                    Older
                  </button>
                </p>
              )}
            </>
          );
        }}
      </Loaded>
    </Section>
  );
}

const entryRow = (entry: Entry): Row => ({
  key: `entry ${entry.id}`,
  at: entry.at,
  what: <What entry={entry} />,
  who: <Who entry={entry} />,
  trace: entry.correlationId,
});

/** None for one that expired before it was tried: the entry of that says so. */
function emailRow(email: Email): Row[] {
  const at = email.sentAt ?? email.lastAttemptAt ?? email.runAt;
  const what = (
    <>
      <Badge of={email.state} /> <EmailWords email={email} />
    </>
  );
  return at === null ? [] : [{ key: `email ${email.id}`, at, what, who: <span class="quiet">Email</span> }];
}

/** One event, with its delivery to each endpoint. */
const eventRow = (deliveries: Delivery[]): Row => ({
  key: `event ${deliveries[0]?.id}`,
  at: deliveries[0]?.createdAt ?? "",
  what: (
    <>
      {deliveries[0]?.event}
      {deliveries.map(({ endpointId, state, lastError }) => (
        <small key={endpointId}>
          <Badge of={state} /> <a href={`/console/webhooks/${endpointId}`}>Endpoint {endpointId.slice(0, 8)}</a>{" "}
          {state !== "sent" && lastError}
        </small>
      ))}
    </>
  ),
  who: <span class="quiet">Webhook</span>,
});
