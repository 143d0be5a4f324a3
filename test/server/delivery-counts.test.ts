import { describe, expect, test } from "vitest";
import { DELIVERY_STATES } from "../../server/constants.js";
import { asUser, catchErrorCode, catchRejectedFields } from "../support/factories.js";
import { addDeliveries } from "../support/outbox-backlog.js";
import { setState } from "../support/outbox-queue.js";
import { openWebhookCore } from "../support/webhook-core.js";

const { services, owner, sql, webhooks, addEndpoint } = await openWebhookCore();
const mine = asUser(services, owner.userId).webhooks;

const NONE = { waiting: 0, running: 0, retrying: 0, failed: 0, expired: 0, out_of_scope: 0 };
const MAX_COUNTED = 10_000;

const addTo = async (endpointId: string, state: string, count: number) => {
  const ids = await addDeliveries(sql, endpointId, count);
  if (state !== "waiting") await sql(setState("webhook_deliveries", state, `id IN (${ids.join()})`));
};

describe("the numbers of deliveries", () => {
  test("are per state without sent ones, of an endpoint or of all", async () => {
    const [first, second] = [await addEndpoint("http://127.0.0.1:9/1"), await addEndpoint("http://127.0.0.1:9/2")];
    for (const [index, state] of DELIVERY_STATES.entries()) await addTo(first.id, state, index + 1);
    await addTo(second.id, "waiting", 9);
    const ofFirst = { waiting: 1, running: 2, retrying: 3, failed: 4, expired: 6, out_of_scope: 7 };
    expect(await webhooks.count({ endpointId: first.id })).toEqual(ofFirst);
    expect(await mine.count({ endpointId: second.id })).toEqual({ ...NONE, waiting: 9 });
    expect(await webhooks.count({})).toEqual({ ...ofFirst, waiting: 10 });
  });

  test("stop at 10,000 per state", async () => {
    const { id: endpointId } = await addEndpoint("http://127.0.0.1:9/");
    await addTo(endpointId, "waiting", 5 * MAX_COUNTED);
    await addTo(endpointId, "failed", MAX_COUNTED - 1);
    const counts = { ...NONE, waiting: MAX_COUNTED, failed: MAX_COUNTED - 1 };
    for (const filter of [{}, { endpointId }]) expect(await webhooks.count(filter)).toEqual(counts);
  });

  test("are of a user’s own endpoints only", async () => {
    const { id: endpointId } = await webhooks.create({ url: "https://hooks.example.com/" });
    expect(await catchRejectedFields(mine.count({}))).toEqual(["endpointId"]);
    expect(await catchErrorCode(mine.count({ endpointId }))).toBe("RESOURCE_NOT_FOUND");
  });
});
