import { describe, expect, it } from "vitest";
import { createCaller } from "../../server/caller.js";
import type { Mailer } from "../../server/notifications/mailer.js";
import { SendingFailed } from "../../server/outbox/attempt.js";
import { emailQueue } from "../support/email-queue.js";
import { makeForm, makeListing, makeUser } from "../support/factories.js";
import {
  button,
  changesByConsole,
  fillIn,
  guestAddress,
  NAME,
  openDialog,
  startConsole,
  waitForNotice,
} from "./console-page.js";

const { gateway, services, visit } = await startConsole();
const operator = createCaller(services, { kind: "operator" });
const owner = await makeUser(services, { name: "Olga Owner" });
const listing = await makeListing(services, owner.id);

const addForm = () => makeForm(services, owner.id, listing.id, { guestEmail: guestAddress() });
const changesOf = (subjectId: string) => changesByConsole(services, subjectId);
const statusOf = async (id: string) => (await operator.forms.getAny({ id })).status;

/** Makes an attempt at every email that is due. */
async function attemptEmails(mailer?: Mailer): Promise<void> {
  const queue = emailQueue(services, "worker", mailer);
  for (let row = await queue.claim(); row; row = await queue.claim()) await queue.attempt(row);
}

const failEmails = () => attemptEmails({ send: () => Promise.reject(new SendingFailed("the mailbox is full", true)) });

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
    await waitForNotice(page, /^The email will be sent again/);
    expect(await emailOf(first.id)).toMatchObject({ state: "waiting" });
    expect(await changesOf(first.id)).toEqual(["notification.retried"]);
    await failEmails();
    const { failed } = await operator.notifications.count();
    await page.reload();
    const dialog = await openDialog(page, "Retry all failed", `Retry ${failed} failed emails`);
    await button(dialog, "Retry").click();
    await waitForNotice(page, `Emails that will be sent again: ${failed}.`);
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
      "Street and number": "Am Bach 1",
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
  expect(await changesOf(id)).toEqual(["user.created", "user.updated", "key.issued", "key.rotated", "key.revoked"]);
  const issued = await Promise.all(keys.map(async (key) => changesOf((await operator.keys.find({ key })).id)));
  expect(issued).toEqual([["key.issued", "key.rotated"], expect.arrayContaining(["key.revoked"])]);
});
