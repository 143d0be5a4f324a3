import { expect, it } from "vitest";
import { createCaller } from "../../server/caller.js";
import { makeListing, makeUser, openTestServices } from "../support/factories.js";
import { startTestWorker } from "../support/mail-server.js";
import { openReceiver } from "../support/webhook-receiver.js";
import { button, changesByConsole, fillIn, openDialog, startConsole, waitForNotice } from "./console-page.js";

const LOCAL_HOOKS = { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" };
const { services, visit } = await startConsole(LOCAL_HOOKS);
const operator = createCaller(services, { kind: "operator" });
const owner = await makeUser(services, { name: "Olga Owner" });
const listing = await makeListing(services, owner.id);

it("a webhook endpoint is created, tested, edited, disabled, enabled and deleted, its secret rotated, and deliveries repeated", async () => {
  const receiver = await openReceiver((response) => response.writeHead(503).end("busy"));
  await startTestWorker(await openTestServices({ DATABASE_URL: services.db.url, ...LOCAL_HOOKS }));
  let id = "";
  await visit(
    "/console/webhooks",
    async (page) => {
      const readSecret = async (title: string) => {
        const dialog = page.getByRole("dialog", { name: title });
        receiver.secrets.push((await dialog.locator("code").textContent()) ?? "");
        await button(dialog, "I have saved it").click();
        await dialog.waitFor({ state: "detached" });
        expect(await page.content()).not.toContain(receiver.secrets.at(-1));
      };
      const create = await openDialog(page, "New endpoint");
      await fillIn(create, { URL: receiver.url, Owner: owner.email });
      await button(create, "Create").click();
      await readSecret("Secret of the new endpoint");
      await page.getByRole("link", { name: receiver.url }).click();
      await page.getByRole("heading", { name: /^Endpoint 127/ }).waitFor();
      id = page.url().split("/").at(-1) ?? "";
      expect(await operator.webhooks.get({ id })).toMatchObject({ userId: owner.id, url: receiver.url, enabled: true });

      await button(page, "Send a test").click();
      await expect.poll(() => receiver.types()).toEqual(["webhook.test"]);
      const states = page.getByRole("table", { name: "Deliveries, newest first" });
      await states.getByText("retrying").waitFor();
      receiver.respond = (response) => response.writeHead(204).end();
      const all = await openDialog(page, "Redeliver failed", "Redeliver all that failed");
      await button(all, "Redeliver").click();
      await waitForNotice(page, "Deliveries that are sent again: 1.");
      await states.getByText("sent", { exact: true }).waitFor();
      await button(page, /^Redeliver webhook\.test /).click();
      await expect.poll(() => receiver.received.length).toBe(3);
      expect(new Set(receiver.received.map((request) => request.id)).size).toBe(1);

      const rotate = await openDialog(page, "Rotate secret");
      await button(rotate, "Rotate secret").click();
      await readSecret("New secret");
      await button(page, "Send a test").click();
      await expect.poll(() => receiver.received.at(-1)?.signedBy).toEqual(receiver.secrets);

      const edit = await openDialog(page, "Edit", "Edit the endpoint");
      await edit.getByLabel("form.moved").check();
      await fillIn(edit, { "Listing ids": listing.id });
      await button(edit, "Save").click();
      await waitForNotice(page, "The endpoint was saved.");
      const edited = { events: ["form.moved"], listingIds: [listing.id], url: receiver.url };
      expect(await operator.webhooks.get({ id })).toMatchObject(edited);

      await button(await openDialog(page, "Disable", "Disable the endpoint"), "Disable").click();
      await waitForNotice(page, "The endpoint is disabled.");
      expect(await operator.webhooks.get({ id })).toMatchObject({ enabled: false });
      await button(page, "Enable").click();
      await waitForNotice(page, "The endpoint is enabled.");
      expect(await operator.webhooks.get({ id })).toMatchObject({ enabled: true });
      await button(await openDialog(page, "Delete", "Delete the endpoint"), "Delete").click();
      await page.getByRole("heading", { name: "Webhooks", level: 1 }).waitFor();
    },
    { expected: /status of 40[14]/ },
  );
  expect((await operator.webhooks.list({})).items).toEqual([]);
  const changes = await changesByConsole(services, id);
  expect(changes.slice(0, 1)).toEqual(["webhook.created"]);
  expect(changes.at(-1)).toBe("webhook.deleted");
  for (const change of ["redelivered", "secret_rotated", "updated", "disabled", "enabled"]) {
    expect(changes).toContain(`webhook.${change}`);
  }
});
