import { useRef } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { MAX_COUNTED_DELIVERIES } from "../../../../server/constants.js";
import { shortId } from "../../short-id.js";
import { core, type Outputs } from "../core.js";
import { Badge, EndpointLink, FormLink, Time, UserLink } from "../parts/cells.js";
import { CallButton, FormButton } from "../parts/dialog.js";
import { type Columns, List, StateTabs } from "../parts/list.js";
import { Page, Section } from "../parts/page.js";
import { useRead } from "../queries.js";

type Delivery = Outputs["webhooks"]["deliveries"]["items"][number];

const DELIVERY_COLUMNS: Columns<Delivery> = {
  Event: ({ event }) => event,
  When: ({ createdAt }) => <Time at={createdAt} />,
  Form: ({ formId }) => (formId ? <FormLink id={formId} /> : "Test"),
  Endpoint: ({ endpointId }) => <EndpointLink id={endpointId} />,
  State: ({ state }) => <Badge text={state} />,
  Answer: ({ responseStatus, lastError, responseBody }) => (
    <>
      {lastError ?? responseStatus ?? "–"}
      {responseBody && (
        <details>
          <summary>Body</summary>
          <code>{responseBody}</code>
        </details>
      )}
    </>
  ),
  Attempts: ({ attempts }) => attempts,
  "Next attempt": ({ nextAttemptAt }) => <Time at={nextAttemptAt} />,
  Actions: ({ state, event, id, endpointId }) =>
    !["waiting", "running"].includes(state) && (
      <CallButton
        label="Redeliver"
        about={`${event} ${shortId(id)}`}
        class="btn-sm"
        send={() => core.webhooks.redeliver.mutate({ endpointId, id })}
        done={`${event} is sent again.`}
      />
    ),
};

const ENDPOINT_COLUMNS: Columns<Outputs["webhooks"]["get"]> = {
  Endpoint: ({ id, url }) => (
    <>
      <EndpointLink id={id} /> {url}
    </>
  ),
  Owner: ({ userId }) => (userId ? <UserLink id={userId} /> : "Operator"),
  Events: ({ events }) =>
    events.length === 0
      ? "All"
      : events.map((event) => (
          <div key={event} class="text-nowrap">
            {event}
          </div>
        )),
  Listings: ({ listingIds }) => listingIds.length || "All",
  State: ({ disabledAt, disabledReason, failingSince }) => (
    <>
      <Badge text={disabledAt ? "disabled" : failingSince ? "failing" : "enabled"} />{" "}
      <Time at={disabledAt ?? failingSince} none="" /> {disabledReason}
    </>
  ),
  Actions: ({ id, url, enabled }) =>
    enabled ? (
      <FormButton
        label="Redeliver all failed"
        about={`to ${url}`}
        class="btn-sm"
        submit="Redeliver"
        send={() => core.webhooks.redeliver.mutate({ endpointId: id, failed: true })}
        done={({ redelivered }) => `Deliveries that are sent again: ${redelivered.toLocaleString()}.`}
      >
        <p>
          All failed, expired and retrying deliveries to {url} are sent again, with the same <code>webhook-id</code>.
        </p>
      </FormButton>
    ) : (
      <FormButton
        label="Enable"
        about={url}
        class="btn-sm"
        send={() => core.webhooks.enable.mutate({ id })}
        done={`${url} is enabled.`}
      >
        <p>
          Events from now on are sent to {url}. The command <code>webhooks disable</code> ends that.
        </p>
      </FormButton>
    ),
};

/** Those that need somebody come first. */
const STATES: Delivery["state"][] = ["failed", "retrying", "expired", "waiting", "running", "out_of_scope"];

type Counts = Outputs["webhooks"]["count"];

const countText = (count: number) => `${count.toLocaleString()}${count === MAX_COUNTED_DELIVERIES ? "+" : ""}`;

function Deliveries({ endpoint, counts }: { endpoint: string | undefined; counts: Counts | undefined }) {
  const { query } = useLocation();
  // It stays open when its last delivery is sent again.
  const counted = useRef<Delivery["state"]>();
  if (counts) counted.current ??= STATES.find((one) => counts[one as keyof Counts] > 0) ?? "failed";
  const initial = counted.current ?? "failed";
  const state = (query.state ?? initial) as Delivery["state"];
  const filters = { state, ...(endpoint && { endpointId: endpoint }) };
  const texts = Object.fromEntries(Object.entries(counts ?? {}).map(([one, count]) => [one, countText(count)]));
  return (
    <>
      {/* The service lists what was sent per endpoint only. */}
      <StateTabs
        label="State of the deliveries"
        states={endpoint ? [...STATES, "sent"] : STATES}
        counts={texts}
        initial={initial}
      />
      <List
        caption="Deliveries, newest first"
        listKey={["deliveries", filters]}
        read={(page) => core.webhooks.deliveries.query({ ...filters, ...page })}
        columns={DELIVERY_COLUMNS}
        keyOf={({ endpointId, id }) => `${endpointId} ${id}`}
        empty="None."
        everySeconds={REFRESH_SECONDS}
        limit={10}
      />
    </>
  );
}

const REFRESH_SECONDS = 10;

export function WebhooksPage() {
  const { endpoint } = useLocation().query;
  const filter = endpoint ? { endpointId: endpoint } : {};
  const counts = useRead(["delivery counts", endpoint], () => core.webhooks.count.query(filter), {
    everySeconds: REFRESH_SECONDS,
  });
  return (
    <Page title="Webhooks">
      <Section title={endpoint ? `Deliveries to endpoint ${shortId(endpoint)}` : "Deliveries"}>
        <Deliveries key={endpoint} endpoint={endpoint} counts={counts.data} />
      </Section>
      <Section title="Endpoints" actions={endpoint && <a href="/console/webhooks">Deliveries to all</a>}>
        <List
          caption="Webhook endpoints, oldest first"
          listKey={["endpoints"]}
          read={(page) => core.webhooks.list.query(page)}
          cursorName="endpoints"
          columns={ENDPOINT_COLUMNS}
          keyOf={({ id }) => id}
          empty="None. Users and commands create them."
          everySeconds={REFRESH_SECONDS}
        />
      </Section>
    </Page>
  );
}
