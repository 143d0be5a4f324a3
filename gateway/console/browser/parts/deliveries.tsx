import { core, type Outputs } from "../core.js";
import { Badge } from "./badge.js";
import { CallButton } from "./dialog.js";
import { EndpointLink, FormLink } from "./links.js";
import type { Columns } from "./list.js";
import { Time } from "./time.js";

export type Delivery = Outputs["webhooks"]["deliveries"]["items"][number];

export const DELIVERY_COLUMNS: Columns<Delivery> = {
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
        about={`${event} ${id.slice(0, 8)}`}
        class="btn-sm"
        send={() => core.webhooks.redeliver.mutate({ endpointId, id })}
        done={`${event} is sent again.`}
      />
    ),
};
