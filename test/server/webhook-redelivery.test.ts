import { describe, expect, test } from "vitest";
import type { Delivery } from "../../server/webhooks/schema.js";
import { catchErrorCode, catchRejectedFields } from "../support/factories.js";
import { startTestWorker } from "../support/mail-server.js";
import { deliveryQueue, setState } from "../support/outbox-queue.js";
import { openWebhookCore } from "../support/webhook-core.js";
import { openReceiver } from "../support/webhook-receiver.js";

const core = await openWebhookCore();
const { services, owner, operator, sql, holdLock, waitForBlocked, runBehind } = core;
const { webhooks, addEndpoint, deliveriesOf } = core;

describe("webhooks.redeliver", () => {
  test("sends one delivery, or those of a time range, once more with the same webhook-id and the current form", async () => {
    const receiver = await openReceiver();
    const { id } = await addEndpoint(receiver.url, receiver);
    const forms = [await owner.addForm(), await owner.addForm(), await owner.addForm()];
    await startTestWorker(services);
    await expect.poll(async () => (await deliveriesOf(id)).map(({ state }) => state)).toEqual(Array(3).fill("sent"));
    const [first, second, third] = (await deliveriesOf(id)) as [Delivery, Delivery, Delivery];
    await operator.forms.setParty({ id: forms[0]?.id ?? "", numberOfPets: 2 });
    await expect.poll(() => receiver.received.length).toBe(4);
    expect(await webhooks.redeliver({ endpointId: id, id: first.id })).toEqual({ redelivered: 1 });
    await expect.poll(() => receiver.received.length).toBe(5);
    const last = receiver.received[4];
    expect(last?.id).toBe(first.id);
    expect(last?.event).toMatchObject({ type: "form.created", data: { form: { numberOfPets: 2 } } });
    const range = { endpointId: id, since: second.createdAt, until: third.createdAt };
    expect(await webhooks.redeliver(range)).toEqual({ redelivered: 1 });
    await expect.poll(() => receiver.received[5]?.id).toBe(second.id);
    expect(await webhooks.redeliver({ endpointId: id, failed: true })).toEqual({ redelivered: 0 });
    const unknown = { endpointId: id, id: "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa" };
    expect(await catchRejectedFields(webhooks.redeliver(unknown))).toEqual(["id"]);
    expect(await catchErrorCode(webhooks.redeliver({ endpointId: id }))).toBe("VALIDATION_ERROR");
  });
});

describe("webhooks.redeliver at the same time as a worker that claims the same deliveries", () => {
  async function addRetrying() {
    const { id } = await addEndpoint("http://127.0.0.1/hook");
    await owner.addForm();
    await sql(`${setState("webhook_deliveries", "retrying")}`);
    await sql("UPDATE webhook_deliveries SET attempts = 3");
    return id;
  }

  test("leaves alone an attempt that the worker has begun", async () => {
    const id = await addRetrying();
    const claiming = setState("webhook_deliveries", "running");
    const redelivered = await runBehind([claiming], () => webhooks.redeliver({ endpointId: id, failed: true }));
    expect(redelivered).toEqual({ redelivered: 0 });
    expect(await deliveriesOf(id)).toMatchObject([{ state: "running", attempts: 3 }]);
  });

  test("is not lost if it comes first: the worker sends what was reset, afterwards", async () => {
    const id = await addRetrying();
    const queue = deliveryQueue(services, "worker");
    // The audit entry is the last that it writes.
    const lock = await holdLock("LOCK TABLE audit_entries IN EXCLUSIVE MODE");
    const redelivering = webhooks.redeliver({ endpointId: id, failed: true });
    await waitForBlocked(1);
    expect(await queue.claim()).toBeUndefined();
    await lock.commit();
    expect(await redelivering).toEqual({ redelivered: 1 });
    expect(await queue.claim()).toMatchObject({ attempts: 1 });
  });
});
