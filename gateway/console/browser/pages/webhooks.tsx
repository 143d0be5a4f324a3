import { useLocation } from "preact-iso/router";
import { DELIVERY_STATES } from "../../../../server/constants.js";
import { core, type Outputs } from "../core.js";
import { Badge } from "../parts/badge.js";
import { DELIVERY_COLUMNS, type Delivery } from "../parts/deliveries.js";
import { CallButton, FormButton } from "../parts/dialog.js";
import { EndpointLink, UserLink } from "../parts/links.js";
import { type Columns, List } from "../parts/list.js";
import { Page, Section } from "../parts/page.js";
import { StateTabs } from "../parts/tabs.js";
import { Time } from "../parts/time.js";

const COLUMNS: Columns<Outputs["webhooks"]["get"]> = {
  Endpoint: ({ id, url }) => (
    <>
      <EndpointLink id={id} /> {url}
    </>
  ),
  Owner: ({ userId }) => (userId ? <UserLink id={userId} /> : "Operator"),
  Events: ({ events }) => events.join(", ") || "All",
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
        label="Redeliver failed"
        about={`to ${url}`}
        class="btn-sm"
        submit="Redeliver"
        send={() => core.webhooks.redeliver.mutate({ endpointId: id, failed: true })}
        done={({ redelivered }) => `Deliveries that are sent again: ${redelivered.toLocaleString()}.`}
      >
        <p>
          All failed and retrying deliveries to {url} are sent again now, with the same <code>webhook-id</code>.
        </p>
      </FormButton>
    ) : (
      <CallButton
        label="Enable"
        about={url}
        class="btn-sm"
        send={() => core.webhooks.enable.mutate({ id })}
        done={`${url} is enabled.`}
      />
    ),
};

const STATES = ["failed", ...DELIVERY_STATES.filter((state) => state !== "failed")];

export function WebhooksPage() {
  const { query } = useLocation();
  const { state = "failed", endpoint } = query;
  const filters = { state: state as Delivery["state"], ...(endpoint && { endpointId: endpoint }) };
  return (
    <Page title="Webhooks">
      <Section title={endpoint ? `Deliveries to endpoint ${endpoint.slice(0, 8)}` : "Deliveries"}>
        <StateTabs label="State of the deliveries" states={STATES} />
        <List
          caption="Deliveries, newest first"
          listKey={["deliveries", filters]}
          read={(page) => core.webhooks.deliveries.query({ ...filters, ...page })}
          columns={DELIVERY_COLUMNS}
          keyOf={({ endpointId, id }) => `${endpointId} ${id}`}
          empty="None."
          everySeconds={10}
          limit={10}
        />
      </Section>
      <Section title="Endpoints" actions={endpoint && <a href="/console/webhooks">Deliveries to all</a>}>
        <List
          caption="Webhook endpoints, oldest first"
          listKey={["endpoints"]}
          read={(page) => core.webhooks.list.query(page)}
          cursorName="endpoints"
          columns={COLUMNS}
          keyOf={({ id }) => id}
          empty="None. Users and commands create them."
          everySeconds={10}
        />
      </Section>
    </Page>
  );
}
