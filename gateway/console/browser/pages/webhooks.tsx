import { useLocation } from "preact-iso/router";
import { DELIVERY_STATES } from "../../../../server/constants.js";
import { core } from "../core.js";
import { DELIVERY_COLUMNS, type Delivery } from "../parts/deliveries.js";
import { Endpoints } from "../parts/endpoints.js";
import { type Columns, List } from "../parts/list.js";
import { Page, Section } from "../parts/page.js";
import { Tabs } from "../parts/tabs.js";

const COLUMNS: Columns<Delivery> = {
  Endpoint: ({ endpointId }) => (
    <a class="nowrap" href={`/console/webhooks/${endpointId}`}>
      {endpointId.slice(0, 8)}
    </a>
  ),
  ...DELIVERY_COLUMNS,
};

const STATES = [
  ["", "failed"],
  ...DELIVERY_STATES.filter((state) => state !== "failed").map((state) => [state, state.replaceAll("_", " ")] as const),
] as const;

export function WebhooksPage() {
  const { query } = useLocation();
  const state = (query.state ?? "failed") as Delivery["state"];
  return (
    <Page title="Webhooks">
      <Section title="Deliveries">
        <Tabs label="State of the deliveries" name="state" of={STATES} />
        <List
          caption="Deliveries of all endpoints, newest first"
          listKey={["all deliveries", state]}
          read={(page) => core.webhooks.deliveries.query({ state, ...page })}
          columns={COLUMNS}
          keyOf={({ endpointId, id }) => `${endpointId} ${id}`}
          empty="No delivery has this state."
          everySeconds={10}
          limit={10}
        />
      </Section>
      <Endpoints />
    </Page>
  );
}
