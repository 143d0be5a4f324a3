import { useLocation } from "preact-iso/router";
import { core, type Outputs } from "../core.js";
import { Badge } from "../parts/badge.js";
import { Copy } from "../parts/copy.js";
import { type Entry, Subject, What, Who } from "../parts/entry.js";
import { FormLink } from "../parts/links.js";
import { type Columns, Table, withQuery } from "../parts/list.js";
import { Page, Section } from "../parts/page.js";
import { Loaded } from "../parts/states.js";
import { Ago, Time } from "../parts/time.js";
import { useRead } from "../queries.js";
import { isUuid } from "./find.js";

type Delivery = Outputs["audit"]["trace"]["deliveries"][number];

const ENTRIES: Columns<Entry> = {
  When: ({ at }) => <Time at={at} />,
  Of: (entry) => <Subject entry={entry} />,
  What: (entry) => <What entry={entry} />,
  Who: (entry) => <Who entry={entry} />,
};

const DELIVERIES: Columns<Delivery> = {
  Event: ({ event }) => event,
  Form: ({ formId }) => formId && <FormLink id={formId} />,
  Endpoint: ({ endpointId }) => <a href={`/console/webhooks/${endpointId}`}>{endpointId.slice(0, 8)}</a>,
  State: ({ state }) => <Badge of={state} />,
  Attempts: ({ attempts }) => attempts,
  "Last answer": ({ responseStatus }) => responseStatus ?? <span class="quiet">–</span>,
  "Next attempt": ({ nextAttemptAt }) => <Ago at={nextAttemptAt} />,
};

export function TracePage() {
  const { query, route } = useLocation();
  const id = query.id ?? "";
  const issue = id && !isUuid(id) ? "A correlation id is a UUID, such as 8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11." : "";
  return (
    <Page title="Trace">
      <search>
        <form
          class="filters"
          onSubmit={(event) => {
            event.preventDefault();
            route(withQuery({ id: `${new FormData(event.currentTarget).get("id")}`.trim() }));
          }}
        >
          <div class="wide">
            <label for="correlation-id">Correlation id of a request</label>
            <input
              key={id}
              id="correlation-id"
              name="id"
              defaultValue={id}
              autocomplete="off"
              spellcheck={false}
              aria-invalid={issue ? "true" : undefined}
              aria-describedby="correlation-id-note"
            />
          </div>
          <button type="submit">Show</button>
        </form>
      </search>
      <p id="correlation-id-note" role="status" class={issue ? "issue" : "quiet"}>
        {issue ||
          "It is in the X-Correlation-Id header of each response, in each error and in the log lines of the request."}
      </p>
      {id && !issue && <Trace id={id.toLowerCase()} />}
    </Page>
  );
}

function Trace({ id }: { id: string }) {
  const trace = useRead(["trace", id], () => core.audit.trace.query({ correlationId: id }));
  return (
    <Loaded query={trace}>
      {({ entries, deliveries, logField }) => (
        <div class="stack">
          <Section title="Changes">
            <Table
              caption="Changes by this request, in order"
              columns={ENTRIES}
              rows={entries}
              keyOf={(entry) => entry.id}
              empty="No changes are recorded for this request: it only read, was rejected, or is not known."
            />
          </Section>
          <Section title="Webhook deliveries of these changes">
            <Table
              caption="Webhook deliveries of these changes"
              columns={DELIVERIES}
              rows={deliveries}
              keyOf={(delivery) => `${delivery.id} ${delivery.endpointId}`}
              empty="None."
            />
          </Section>
          <p>
            To see the request, search the log for <Copy text={`"${logField}":"${id}"`} />
          </p>
        </div>
      )}
    </Loaded>
  );
}
