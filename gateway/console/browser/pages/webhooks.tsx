import { core } from "../core.js";
import { DELIVERY_COLUMNS, type Delivery } from "../parts/deliveries.js";
import { Endpoints } from "../parts/endpoints.js";
import { type Columns, List } from "../parts/list.js";
import { Page, Section } from "../parts/page.js";

const COLUMNS: Columns<Delivery> = {
  Endpoint: ({ endpointId }) => (
    <a class="id" href={`/console/webhooks/${endpointId}`}>
      {endpointId.slice(0, 8)}
    </a>
  ),
  ...DELIVERY_COLUMNS,
};

export const WebhooksPage = () => (
  <Page title="Webhooks">
    <Section title="Failed deliveries">
      <List
        caption="Failed deliveries of all endpoints, newest first"
        listKey={["failed deliveries"]}
        read={(page) => core.webhooks.deliveries.query({ state: "failed", ...page })}
        columns={COLUMNS}
        keyOf={({ endpointId, id }) => `${endpointId} ${id}`}
        empty="No delivery has failed."
        everySeconds={10}
        limit={10}
      />
    </Section>
    <Endpoints />
  </Page>
);
