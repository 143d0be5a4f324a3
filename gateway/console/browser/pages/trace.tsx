import { useLocation } from "preact-iso/router";
import { core } from "../core.js";
import { Time } from "../parts/cells.js";
import { Copy } from "../parts/copy.js";
import { type Columns, Filters, Table } from "../parts/list.js";
import { Loaded, Page, Section } from "../parts/page.js";
import { DeliveryState } from "../parts/timeline.js";
import { type Entry, Subject, What, Who } from "../parts/trail.js";
import { useRead } from "../queries.js";

const ENTRIES: Columns<Entry> = {
  When: ({ at }) => <Time at={at} />,
  Subject,
  What,
  Who,
};

export function TracePage() {
  const { query } = useLocation();
  return (
    <Page title="Trace">
      <Filters filters={[{ name: "id", label: "Correlation id of a request" }]} />
      {query.id ? (
        <Trace id={query.id} />
      ) : (
        <p>It is in the header X-Correlation-Id of each response, and in each error.</p>
      )}
    </Page>
  );
}

function Trace({ id }: { id: string }) {
  const trace = useRead(["trace", id], () => core.audit.trace.query({ correlationId: id }));
  return (
    <Loaded query={trace}>
      {({ entries, deliveries, logField }) => (
        <>
          <Section title="Changes">
            <Table
              caption="Changes by this request, in order"
              columns={ENTRIES}
              rows={entries}
              keyOf={(entry) => entry.id}
              empty="No changes are recorded for this request: it only read, was rejected, or is not known."
            />
          </Section>
          {deliveries.length > 0 && (
            <Section title="Webhook deliveries of these changes">
              {deliveries.map((delivery) => (
                <div key={`${delivery.id} ${delivery.endpointId}`}>
                  <DeliveryState {...delivery} />
                </div>
              ))}
            </Section>
          )}
          <p>
            To see the request, search the log for <Copy text={`"${logField}":"${id}"`} />
          </p>
        </>
      )}
    </Loaded>
  );
}
