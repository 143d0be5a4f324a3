import { describe, expect, it } from "vitest";
import { createCaller } from "../../server/caller.js";
import type { Mailer } from "../../server/notifications/mailer.js";
import { SendingFailed } from "../../server/outbox/attempt.js";
import { emailQueue } from "../support/email-queue.js";
import { makeForm, makeListing, makeUser, openTestServices } from "../support/factories.js";
import { startTestWorker } from "../support/mail-server.js";
import { openReceiver } from "../support/webhook-receiver.js";
import { button, fillIn, guestAddress, NAME, openDialog, startConsole, waitForNotice } from "./console-page.js";

const LOCAL_HOOKS = { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" };
const { gateway, services, visit } = await startConsole(LOCAL_HOOKS);
const operator = createCaller(services, { kind: "operator" });
const owner = await makeUser(services, { name: "Olga Owner" });
const listing = await makeListing(services, owner.id);

const addForm = () => makeForm(services, owner.id, listing.id, { guestEmail: guestAddress() });
const statusOf = async (id: string) => (await operator.forms.getAny({ id })).status;

/** What was done to something in the console's name, oldest first. */
async function changesOf(subjectId: string): Promise<string[]> {
  const entries = await operator.audit.trail({ subjectId });
  return entries
    .filter(({ actorName }) => actorName === NAME)
    .map(({ action }) => action)
    .reverse();
}

/** Makes an attempt at every email that is due. */
async function attemptEmails(mailer?: Mailer): Promise<void> {
  const queue = emailQueue(services, "worker", mailer);
  for (let row = await queue.claim(); row; row = await queue.claim()) await queue.attempt(row);
}

const failEmails = () =>
  attemptEmails({ send: () => Promise.reject(new SendingFailed("the mailbox is full", true)) });

XX: Promise<void> {
  const queue = emailQueue(services, "worker", {
    send: () => Promise.reject(new SendingFailed("the mailbox is full", true)),
  });
  for (let row = await queue.claim(); row; row = await queue.claim()) await queue.attempt(row);
}

const emailOf = async (formId: string) => (await operator.notifications.list({ formId })).items.at(-1);

describe("a form", () => {
  it("moves along the stages and to any other status, is moved back by undo, and the trail has the operator’s name", async () => {
    const { id } = await addForm();
    await visit(`/console/forms/${id}`, async (page) => {
      await button(page, "Set COMPLETED").click();
      await waitForNotice(page, "The form is COMPLETED now.");
      expect(await statusOf(id)).toBe("COMPLETED");
      await button(page, "Undo: set SENT").click();
      await waitForNotice(page, "The form is SENT now.");
      expect(await statusOf(id)).toBe("SENT");
      const dialog = await openDialog(page, "Other status …", "Set another status");
      await dialog.getByLabel("Status").selectOption("CHECKED_OUT");
      await button(dialog, "Set the status").click();
      await waitForNotice(page, "The form is CHECKED_OUT now.");
      expect(await statusOf(id)).toBe("CHECKED_OUT");
      await page
        .getByRole("row", { name: /SENT → CHECKED_OUT out of order/ })
        .getByText(NAME)
        .waitFor();
    });
    expect(await changesOf(id)).toEqual(["form.status_set", "form.status_set", "form.status_set"]);
  });

  it("whose guest got no email shows why, and the invitation is sent after a preview, and once more", async () => {
    const { id } = await addForm();
    await failEmails();
    expect(await emailOf(id)).toMatchObject({ state: "failed" });
    await visit(`/console/forms/${id}`, async (page) => {
      await page
        .getByText(/The invitation was not delivered: the mailbox is full/)
        .first()
        .waitFor();
      const dialog = await openDialog(page, "Send the invitation …", "Send the invitation");
      const frame = dialog.locator("iframe");
      await frame.contentFrame().getByRole("link", { name: "Fill in the form" }).waitFor();
      await frame.contentFrame().getByText(listing.title).first().waitFor();
      expect(await frame.getAttribute("sandbox")).toBe("");
      await button(dialog, "Send it now").click();
      await page
        .getByRole("region", { name: "Invitation" })
        .getByText(/waits to be sent/)
        .waitFor();
      expect(await emailOf(id)).toMatchObject({ state: "waiting" });
      await attemptEmails();
      const again = await openDialog(page, "Send the invitation again …", "Send the invitation");
      await button(again, "Send it now").click();
      await expect.poll(async () => (await emailOf(id))?.state).toBe("waiting");
      await again.waitFor({ state: "detached" });
    });
    expect(await changesOf(id)).toEqual(["notification.retried", "notification.requested"]);
    await failEmails();
  });
});

it("failed emails are retried, one or all of them", async () => {
  const first = await addForm();
  await failEmails();
  await visit("/console/emails?state=failed", async (page) => {
    await button(page, `Retry the email about ${first.id.slice(0, 8)}`).click();
    await waitForNotice(page, "The email is sent again.");
    expect(await emailOf(first.id)).toMatchObject({ state: "waiting" });
    expect(await changesOf(first.id)).toEqual(["notification.retried"]);
    await failEmails();
    const { failed } = await operator.notifications.count();
    await page.reload();
    const dialog = await openDialog(page, "Retry all failed", `Retry ${failed} failed emails`);
    await button(dialog, "Retry").click();
    await waitForNotice(page, `Emails that are sent again: ${failed}.`);
  });
  expect(await operator.notifications.count()).toMatchObject({ failed: 0 });
  expect(await changesOf(first.id)).toEqual(["notification.retried", "notification.retried"]);
});

it("a listing is created, edited, deactivated and activated, and its members are added, changed and removed", async () => {
  const member = await makeUser(services);
  let id = "";
  await visit("/console/listings", async (page) => {
    const form = await openDialog(page, "New listing");
    await fillIn(form, {
      Owner: owner.email,
      Title: "Mill by the brook",
      "Street and number": "Mühlgasse 1",
      "Postal code": "01067",
      City: "Dresden",
      Country: "Germany",
      "Time zone": "Europe/Berlin",
      "Language of the invitation": "de",
    });
    await button(form, "Create").click();
    await page.getByRole("heading", { name: "Mill by the brook", level: 1 }).waitFor();
    id = page.url().split("/").at(-1) ?? "";
    expect(await operator.listings.getAny({ id })).toMatchObject({ title: "Mill by the brook", language: "de" });

    const edit = await openDialog(page, "Edit", "Edit Mill by the brook");
    await fillIn(edit, { Title: "Mill", "Guests at most": "5", "Language of the invitation": "" });
    await edit.getByLabel("Pets allowed").selectOption("No");
    await button(edit, "Save").click();
    await page.getByRole("heading", { name: "Mill", level: 1, exact: true }).waitFor();
    const edited = { title: "Mill", maxPeopleInListing: 5, language: null, allowPets: false, city: "Dresden" };
    expect(await operator.listings.getAny({ id })).toMatchObject(edited);

    const confirmation = await openDialog(page, "Deactivate", "Deactivate Mill");
    await button(confirmation, "Deactivate").click();
    await waitForNotice(page, "Mill is inactive.");
    expect(await operator.listings.getAny({ id })).toMatchObject({ active: false });
    await button(page, "Activate").click();
    await waitForNotice(page, "Mill is active.");
    expect(await operator.listings.getAny({ id })).toMatchObject({ active: true });

    const roles = async () =>
      (await operator.members.list({ listingId: id })).items.map(({ userId, role }) => [userId, role]);
    const add = await openDialog(page, "Add member");
    await fillIn(add, { User: member.email });
    await add.getByLabel("Role").selectOption("Reader");
    await button(add, "Add").click();
    await waitForNotice(page, "Added as READER.");
    expect(await roles()).toContainEqual([member.id, "READER"]);
    const change = await openDialog(page, `Change the role of ${member.email}`, `Role: ${member.email}`);
    await change.getByLabel("Role").selectOption("Writer");
    await button(change, "Set role").click();
    await waitForNotice(page, `${member.email} is WRITER of Mill.`);
    expect(await roles()).toContainEqual([member.id, "WRITER"]);
    const remove = await openDialog(page, `Remove ${member.email}`);
    await button(remove, "Remove").click();
    await waitForNotice(page, `${member.email} was removed from Mill.`);
    expect(await roles()).toEqual([[owner.id, "OWNER"]]);
  });
  const updated = ["listing.updated", "listing.updated", "listing.updated"];
  expect((await changesOf(id)).sort()).toEqual(
    ["listing.created", ...updated, "member.removed", "member.set", "member.set"].sort(),
  );
});

it("a user is created and edited, and gets a read-only key that is shown once, works, is rotated and revoked", async () => {
  const status = async (key: string, method = "GET") =>
    (await gateway.request({ method, path: "/v1/forms", key })).status;
  let id = "";
  const keys: string[] = [];
  await visit(
    "/console/users",
    async (page) => {
      const form = await openDialog(page, "New user");
      await fillIn(form, { "Email address": "ines@people.test", Name: "Ines" });
      await button(form, "Create").click();
      await page.getByRole("heading", { name: "ines@people.test", level: 1 }).waitFor();
      id = page.url().split("/").at(-1) ?? "";
      const edit = await openDialog(page, "Edit", "Edit ines@people.test");
      await fillIn(edit, { Name: "Ines Integrator" });
      await button(edit, "Save").click();
      await waitForNotice(page, "ines@people.test was saved.");
      expect(await operator.users.get({ id })).toMatchObject({ email: "ines@people.test", name: "Ines Integrator" });

      const issue = await openDialog(page, "Issue key");
      expect(await issue.getByLabel("Mode").inputValue()).toBe("READ_ONLY");
      await fillIn(issue, { Label: "channel manager" });
      await button(issue, "Issue key").click();
      const readSecret = async (title: string) => {
        const dialog = page.getByRole("dialog", { name: title });
        const key = (await dialog.locator("code").textContent()) ?? "";
        gateway.forbidInLog(key);
        await page.keyboard.press("Escape");
        await button(dialog, "Copy").click();
        await dialog.getByText("Copied.").waitFor();
        expect(await page.evaluate("navigator.clipboard.readText()")).toBe(key);
        await button(dialog, "Done").click();
        await dialog.waitFor({ state: "detached" });
        expect(await page.content()).not.toContain(key);
        keys.push(key);
        return key;
      };
      const key = await readSecret("Read-only key");
      expect([await status(key), await status(key, "POST")]).toEqual([200, 403]);

      const prefix = key.slice(0, 12);
      const rotate = await openDialog(page, `Rotate ${prefix}`, `Rotate ${prefix}…`);
      await rotate.getByLabel("The old key ends").selectOption("In an hour");
      await button(rotate, "Issue the new key").click();
      const newKey = await readSecret("New key");
      expect([await status(key), await status(newKey)]).toEqual([200, 200]);
      await page.getByRole("row", { name: prefix }).getByText("rotated").waitFor();

      const newPrefix = newKey.slice(0, 12);
      const revoke = await openDialog(page, `Revoke ${newPrefix}`, `Revoke ${newPrefix}…`);
      await button(revoke, "Revoke").click();
      await waitForNotice(page, `${newPrefix}… was revoked.`);
      await expect.poll(() => status(newKey)).toBe(401);
      await page.reload();
      await page.getByRole("row", { name: newPrefix }).getByText("revoked").waitFor();
      expect(await page.content()).not.toContain(newKey);
    },
    { permissions: ["clipboard-read", "clipboard-write"] },
  );
  expect(await changesOf(id)).toEqual(["user.created", "user.updated"]);
  const issued = await Promise.all(keys.map(async (key) => changesOf((await operator.keys.find({ key })).id)));
  expect(issued).toEqual([["key.issued", "key.rotated"], expect.arrayContaining(["key.revoked"])]);
});

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
  const changes = await changesOf(id);
  expect(changes.slice(0, 1)).toEqual(["webhook.created"]);
  expect(changes.at(-1)).toBe("webhook.deleted");
  for (const change of ["redelivered", "secret_rotated", "updated", "disabled", "enabled"]) {
    expect(changes).toContain(`webhook.${change}`);
  }
});
