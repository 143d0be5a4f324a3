import { beforeEach, expect } from "vitest";
import type { Delivery } from "../../server/webhooks/schema.js";
import { openTestCore } from "./core.js";
import type { WebhookReceiver } from "./webhook-receiver.js";

/** Opens the core on a new database, with an owner of endpoints that may be at local addresses. Each test begins without any. */
export async function openWebhookCore() {
  const core = await openTestCore({ WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" });
  const { owner, operator, sql } = core;
  const { webhooks } = operator;
  beforeEach(() => sql("TRUNCATE webhook_endpoints, webhook_deliveries, emails, forms, audit_entries CASCADE"));

  /** The deliveries of an endpoint, oldest first. */
  const deliveriesOf = async (endpointId: string): Promise<Delivery[]> =>
    (await webhooks.deliveries({ endpointId, limit: 100 })).items.reverse();

  return {
    ...core,
    webhooks,
    deliveriesOf,
    /** Adds an endpoint of the owner. */
    async addEndpoint(url: string, receiver?: WebhookReceiver) {
      const endpoint = await webhooks.create({ userId: owner.userId, url });
      receiver?.secrets.push(endpoint.secret);
      return endpoint;
    },
    /** Waits until the first delivery has this state. */
    async waitFor(endpointId: string, state: Delivery["state"], timeout = 5_000): Promise<Delivery> {
      const first = async () => (await deliveriesOf(endpointId))[0];
      await expect.poll(async () => (await first())?.state, { timeout }).toBe(state);
      return (await first()) ?? expect.fail("there is no delivery");
    },
    /** Ends all pauses. The columns have milliseconds: now() may be rounded up, to a time in the future. */
    async makeDue(): Promise<void> {
      await sql(
        "UPDATE webhook_deliveries SET next_attempt_at = now() - interval '1 ms' WHERE next_attempt_at IS NOT NULL",
      );
      await sql("UPDATE webhook_endpoints SET paused_until = now() - interval '1 ms' WHERE paused_until IS NOT NULL");
    },
  };
}
