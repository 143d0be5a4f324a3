import { setTimeout as sleep } from "node:timers/promises";
import type { Caller } from "../../../server/caller.js";
import { MAX_LIMIT } from "../../../server/constants.js";
import type { Delivery } from "../../../server/webhooks/schema.js";

export const TEST_TIMEOUT_MS = 15_000;
const TEST_POLL_MS = 250;

/** Returns the delivery after its first attempt, or as it is after TEST_TIMEOUT_MS. */
export async function waitForAttempt(core: Caller, added: Delivery): Promise<Delivery> {
  const deadline = performance.now() + TEST_TIMEOUT_MS;
  let delivery = added;
  while (["waiting", "running"].includes(delivery.state) && performance.now() < deadline) {
    await sleep(TEST_POLL_MS);
    delivery = (await findDelivery(core, added)) ?? delivery;
  }
  return delivery;
}

/** Undefined if it was deleted. */
async function findDelivery({ webhooks }: Caller, { id, endpointId }: Delivery): Promise<Delivery | undefined> {
  let cursor: string | undefined;
  do {
    const { items, nextCursor } = await webhooks.deliveries({ endpointId, limit: MAX_LIMIT, cursor });
    const found = items.find((delivery) => delivery.id === id);
    if (found) return found;
    cursor = nextCursor ?? undefined;
  } while (cursor);
  return undefined;
}

/** Why a test was not delivered. */
export function describeProblem({ state, lastError }: Delivery): string | undefined {
  if (state === "sent") return undefined;
  if (state === "waiting")
    return `No worker has sent it within ${TEST_TIMEOUT_MS / 1000} s: run \`guest-forms serve\` or \`guest-forms worker\`, and see \`guest-forms doctor\`.`;
  if (state === "running") return "It is still being sent: see `guest-forms webhooks deliveries`.";
  return `Not delivered: ${lastError}.`;
}
