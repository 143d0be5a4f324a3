import { core, type Outputs } from "../core.js";
import { Instant } from "./action.js";
import { Badge } from "./badge.js";
import { FormLink } from "./links.js";
import type { Columns } from "./list.js";
import { Ago, Time } from "./time.js";

export type Delivery = Outputs["webhooks"]["deliveries"]["items"][number];

const hasEnded = ({ state }: Delivery) => !["waiting", "running"].includes(state);

export const DELIVERY_COLUMNS: Columns<Delivery> = {
  Event: ({ event, createdAt }) => (
    <>
      {event}
      <small class="quiet">
        <Time at={createdAt} />
      </small>
    </>
  ),
  Form: ({ formId }) => (formId ? <FormLink id={formId} /> : <span class="quiet">Test</span>),
  State: ({ state }) => <Badge of={state} />,
  Answer: ({ responseStatus, durationMs, lastError, responseBody }) => (
    <>
      {[responseStatus, durationMs !== null && `${durationMs} ms`].filter(Boolean).join(" · ") || (
        <span class="quiet">–</span>
      )}
      {lastError && lastError !== `answered ${responseStatus}` && <small>{lastError}</small>}
      {responseBody && (
        <details>
          <summary>Body</summary>
          <code>{responseBody}</code>
        </details>
      )}
    </>
  ),
  Attempts: ({ attempts }) => attempts,
  Next: ({ nextAttemptAt }) => <Ago at={nextAttemptAt} />,
  Actions: (delivery) =>
    hasEnded(delivery) && (
      <Instant
        label="Redeliver"
        of={`${delivery.event} ${delivery.id.slice(0, 8)}`}
        class="small"
        send={() => core.webhooks.redeliver.mutate({ endpointId: delivery.endpointId, id: delivery.id })}
        done={() => `${delivery.event} is sent again.`}
      />
    ),
};
