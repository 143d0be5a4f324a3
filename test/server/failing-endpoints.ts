import { expect } from "vitest";
import { attempt } from "../../server/outbox/attempt.js";
import { DeliveryFailed, type Post } from "../../server/webhooks/request.js";
import { deliveryQueue } from "../support/outbox-queue.js";
import { openWebhookCore } from "../support/webhook-core.js";

export const URL = "http://127.0.0.1/hook";

export async function openFailingEndpoints() {
  const core = await openWebhookCore();
  const { services, owner, sql, addEndpoint } = core;
  // What slow and failing endpoints do to themselves, and not to others.
  /** Answers every delivery with this status. */
  const answering =
    (status: number): Post =>
    async () => {
      const answer = { status, body: "", durationMs: 1, retryAfterSeconds: null };
      if (status === 204) return answer;
      throw new DeliveryFailed(`answered ${status}`, { answer });
    };
  /** Claims one delivery, and makes the attempt, which is answered with this status. Records nothing. */
  async function attemptAnswered(status: number) {
    const queue = deliveryQueue(services, "worker", answering(status));
    const claimed = (await queue.claim()) ?? expect.fail("nothing is due");
    const outcome = await attempt(queue.channel, claimed, { info() {}, warn() {}, error() {} });
    return { outcome, record: (outcomes = [outcome]) => queue.channel.record(outcomes) };
  }
  /** Adds an endpoint with as many deliveries, which has been failing for `since`, the last time `pause` ago. */
  async function addFailing(since: string, pause: string, deliveries = 1) {
    const { id } = await addEndpoint(URL);
    for (let count = 0; count < deliveries; count++) await owner.addForm();
    await sql(
      "UPDATE webhook_endpoints SET failing_since = now() - $1::interval, paused_until = now() - $2::interval",
      since,
      pause,
    );
    return id;
  }
  return { ...core, answering, attemptAnswered, addFailing };
}
