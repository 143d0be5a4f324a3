import { expect, it } from "vitest";
import { shortId } from "../../gateway/console/short-id.js";
import { asOperator, makeForm, makeListing, makeUser, openTestServices } from "../support/factories.js";
import { startTestWorker } from "../support/mail-server.js";
import { openReceiver } from "../support/webhook-receiver.js";
import { button, changesByConsole, openDialog, startConsole, submit, waitForNotice } from "./console-page.js";

const LOCAL_HOOKS = { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" };
const gateway = await startConsole(LOCAL_HOOKS);
const services = await openTestServices({ DATABASE_URL: gateway.services.db.url, ...LOCAL_HOOKS });
const operator = asOperator(services);
const owner = await makeUser(services, { name: "Olga Owner" });
const listing = await makeListing(services, owner.id);

it("failed deliveries are redelivered, one or all of an endpoint, and a disabled endpoint is enabled", async () => {
  const receiver = await openReceiver((response) => response.writeHead(503).end("busy"));
  const { id, url } = await operator.webhooks.create({ url: receiver.url, listingIds: [listing.id] });
  await startTestWorker(services);
  for (let form = 0; form < 3; form++) await makeForm(services, owner.id, listing.id);
  const retrying = async () => (await operator.webhooks.deliveries({ endpointId: id, state: "retrying" })).items.length;
  await expect.poll(retrying).toBe(3);
  await services.db.pool.query(
    "UPDATE webhook_deliveries SET state = 'failed', next_attempt_at = NULL, ended_at = now() WHERE endpoint_id = $1",
    [id],
  );
  receiver.respond = (response) => response.writeHead(204).end();
  const receivedIds = () => receiver.received.map((request) => request.id);
  const [first, ...others] = new Set(receivedIds());
  await gateway.visit("/console/webhooks", async (page) => {
    const deliveries = page.getByRole("table", { name: "Deliveries, newest first" });
    const failed = deliveries.getByText("failed", { exact: true });
    await expect.poll(() => failed.count()).toBe(3);
    await deliveries.getByText("answered 503").first().waitFor();
    await deliveries
      .getByRole("link", { name: shortId(id) })
      .first()
      .click();
    await page.getByRole("heading", { name: `Deliveries to endpoint ${shortId(id)}` }).waitFor();

    await button(page, `Redeliver form.created ${shortId(first ?? "")}`).click();
    await waitForNotice(page, "form.created is sent again.");
    await expect.poll(() => receivedIds().slice(3)).toEqual([first]);
    await expect.poll(() => failed.count()).toBe(2);

    await submit(await openDialog(page, `Redeliver all failed to ${url}`, "Redeliver all failed"), "Redeliver");
    await waitForNotice(page, "Deliveries that are sent again: 2.");
    await expect.poll(() => receivedIds().slice(4).sort()).toEqual(others.sort());
    await page.getByText("None.").waitFor();
    await page.getByRole("link", { name: "sent", exact: true }).click();
    await expect.poll(() => deliveries.getByText("sent", { exact: true }).count()).toBe(3);

    await operator.webhooks.disable({ id });
    await page.reload();
    await submit(await openDialog(page, `Enable ${url}`, "Enable"), "Enable");
    await waitForNotice(page, `${url} is enabled.`);
    await button(page, `Redeliver all failed to ${url}`).waitFor();
  });
  expect(await operator.webhooks.get({ id })).toMatchObject({ enabled: true });
  expect(await changesByConsole(services, id)).toEqual([
    "webhook.redelivered",
    "webhook.redelivered",
    "webhook.enabled",
  ]);
});
