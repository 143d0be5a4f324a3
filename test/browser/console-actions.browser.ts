import { describe, expect, it } from "vitest";
import { shortId } from "../../gateway/console/short-id.js";
import type { Mailer } from "../../server/emails/mailer.js";
import { SendingFailed } from "../../server/outbox/attempt.js";
import { makeForm, makeUser } from "../support/factories.js";
import { emailQueue } from "../support/outbox-queue.js";
import {
  button,
  changesByConsole,
  fillIn,
  guestAddress,
  NAME,
  openDialog,
  section,
  startConsoleWithListing,
  submit,
  waitForNotice,
} from "./console-page.js";

const { gateway, services, operator, visit, owner, listing } = await startConsoleWithListing();

const addForm = () => makeForm(services, owner.id, listing.id, { guestEmail: guestAddress() });
const changesOf = (subjectId: string) => changesByConsole(services, subjectId);
const statusOf = async (id: string) => (await operator.forms.getAny({ id })).status;

/** Makes an attempt at every email that is due. */
async function attemptEmails(mailer?: Mailer): Promise<void> {
  const queue = emailQueue(services, "worker", mailer);
  for (let row = await queue.claim(); row; row = await queue.claim()) await queue.attempt(row);
}

const failEmails = () =>
  attemptEmails({ send: () => Promise.reject(new SendingFailed("552 the mailbox is full", true)) });

const emailOf = async (formId: string) => (await operator.emails.list({ formId })).items.at(-1);

describe("a form", () => {
  it("moves along the stages only, is moved back by undo, and the trail has the operator’s name", async () => {
    const { id } = await addForm();
    await visit(`/console/forms/${id}`, async (page) => {
      const offered = () => page.getByRole("button", { name: /^(Set|Undo: set) [A-Z]/ }).allTextContents();
      const set = async (name: string, status: string, next: string[]) => {
        await button(page, name).click();
        await waitForNotice(page, `The form is ${status} now.`);
        await expect.poll(offered).toEqual(next);
        expect(await statusOf(id)).toBe(status);
      };
      await expect.poll(offered).toEqual(["Set COMPLETED"]);
      await set("Set COMPLETED", "COMPLETED", ["Undo: set SENT", "Set ACCEPTED", "Set REJECTED"]);
      await set("Undo: set SENT", "SENT", ["Undo: set COMPLETED"]);
      await set("Undo: set COMPLETED", "COMPLETED", ["Undo: set SENT", "Set ACCEPTED", "Set REJECTED"]);
      await set("Set ACCEPTED", "ACCEPTED", ["Undo: set COMPLETED", "Set VALIDATED", "Set INVALIDATED"]);
      await set("Set VALIDATED", "VALIDATED", ["Undo: set ACCEPTED", "Set CHECKED OUT"]);
      await set("Set CHECKED OUT", "CHECKED_OUT", ["Undo: set VALIDATED"]);
      for (const change of [/COMPLETED → SENT, out of order/, /VALIDATED → CHECKED_OUT/])
        await page.getByRole("row", { name: change }).getByText(NAME).waitFor();
      await section(page, "Invitation")
        .getByText(/cannot be sent now: the form is no longer SENT/)
        .waitFor();
      // Nothing to undo by those who did not do it.
      await page.reload();
      await page.getByText("The stay is over.").waitFor();
      expect(await offered()).toEqual([]);
    });
    expect(await changesOf(id)).toEqual(Array(6).fill("form.status_set"));
  });

  it("whose guest got no email shows why, and the invitation is sent after a confirmation, and once more", async () => {
    const { id } = await addForm();
    await failEmails();
    expect(await emailOf(id)).toMatchObject({ state: "failed" });
    await visit(`/console/forms/${id}`, async (page) => {
      const invitation = section(page, "Invitation");
      await invitation
        .getByText(/was not delivered, and is not tried again.* Reason: 552 the mailbox is full/)
        .waitFor();
      const dialog = await openDialog(page, "Send the invitation …", "Send the invitation");
      await button(dialog, "Close").click();
      await dialog.waitFor({ state: "detached" });
      expect(await emailOf(id)).toMatchObject({ state: "failed" });
      await submit(await openDialog(page, "Send the invitation …", "Send the invitation"), "Send it now");
      await waitForNotice(page, "The invitation will be sent now.");
      await invitation.getByText(/waits to be sent/).waitFor();
      expect(await emailOf(id)).toMatchObject({ state: "waiting" });
      await attemptEmails();
      await invitation.getByText(/The mail server accepted the invitation/).waitFor();
      await submit(await openDialog(page, "Send the invitation again …", "Send the invitation"), "Send it now");
      await expect.poll(async () => (await emailOf(id))?.state).toBe("waiting");
    });
    expect(await changesOf(id)).toEqual(["email.retried", "email.requested"]);
    await failEmails();
  });
});

it("failed emails are retried, one or all of them", async () => {
  const first = await addForm();
  await failEmails();
  await visit("/console/emails", async (page) => {
    await button(page, `Retry the email about ${shortId(first.id)}`).click();
    await waitForNotice(page, /^The email will be sent again/);
    expect(await emailOf(first.id)).toMatchObject({ state: "waiting" });
    expect(await changesOf(first.id)).toEqual(["email.retried"]);
    await failEmails();
    const { failed } = await operator.emails.count();
    await page.reload();
    await submit(await openDialog(page, "Retry all failed", `Retry all ${failed} failed`), "Retry");
    await waitForNotice(page, `Emails that will be sent again: ${failed}.`);
  });
  expect(await operator.emails.count()).toMatchObject({ failed: 0 });
  expect(await changesOf(first.id)).toEqual(["email.retried", "email.retried"]);
});

it("a listing is created, edited, set inactive and active, and its members are added, changed and removed", async () => {
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
    await fillIn(edit, { Title: "Mill", "Maximum guests": "5", "Language of the invitation": "" });
    await edit.getByLabel("Pets allowed").selectOption("No");
    await button(edit, "Save").click();
    await page.getByRole("heading", { name: "Mill", level: 1, exact: true }).waitFor();
    const edited = { title: "Mill", maxPeopleInListing: 5, language: null, allowPets: false, city: "Dresden" };
    expect(await operator.listings.getAny({ id })).toMatchObject(edited);

    for (const [answer, active, state] of [
      ["No", false, "inactive"],
      ["Yes", true, "active"],
    ] as const) {
      const dialog = await openDialog(page, "Edit", "Edit Mill");
      await dialog.getByLabel("Active").selectOption(answer);
      await submit(dialog, "Save");
      await section(page, "Facts").getByText(state, { exact: true }).waitFor();
      expect(await operator.listings.getAny({ id })).toMatchObject({ ...edited, active });
    }

    const roles = async () =>
      (await operator.members.list({ listingId: id })).items.map(({ userId, role }) => [userId, role]);
    for (const role of ["READER", "WRITER"]) {
      const dialog = await openDialog(page, "Set a member’s role");
      await fillIn(dialog, { User: member.email });
      await dialog.getByLabel("Role").selectOption(role);
      await submit(dialog, "Set the role");
      await waitForNotice(page, `The role is ${role}.`);
      await page
        .getByRole("table", { name: "Members" })
        .getByRole("row", { name: `${member.email} ${role}` })
        .waitFor();
      expect(await roles()).toContainEqual([member.id, role]);
    }
    await submit(await openDialog(page, `Remove ${member.email} from Mill`, "Remove"), "Remove");
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
      await waitForNotice(page, "Saved.");
      expect(await operator.users.get({ id })).toMatchObject({ email: "ines@people.test", name: "Ines Integrator" });

      const issue = await openDialog(page, "Issue key", "Issue a key for ines@people.test");
      expect(await issue.getByLabel("Mode").inputValue()).toBe("READ_ONLY");
      await fillIn(issue, { Label: "channel manager" });
      await button(issue, "Issue key").click();
      const readSecret = async (note: string | RegExp) => {
        const dialog = page.getByRole("dialog", { name: "New key" });
        const key = (await dialog.locator("code").textContent()) ?? "";
        gateway.forbidInLog(key);
        await dialog.getByText(note).waitFor();
        // Chromium closes most dialogs at the second Escape.
        for (let press = 0; press < 3; press++) await page.keyboard.press("Escape");
        expect(await button(dialog, "Close").count()).toBe(0);
        await button(dialog, "Copy").click();
        await dialog.getByText("Copied").waitFor();
        expect(await page.evaluate("navigator.clipboard.readText()")).toBe(key);
        await submit(dialog, "I have saved it");
        expect(await page.content()).not.toContain(key);
        keys.push(key);
        return key;
      };
      const key = await readSecret(/It does not expire/);
      expect([await status(key), await status(key, "POST")]).toEqual([200, 403]);

      const prefix = key.slice(0, 12);
      await submit(await openDialog(page, `Rotate ${prefix}`, `Rotate ${prefix}…`), "Issue the new key");
      const newKey = await readSecret(/The old key ends/);
      expect([await status(key), await status(newKey), await status(newKey, "POST")]).toEqual([200, 200, 403]);
      const { expiresAt } = await operator.keys.find({ key });
      expect((Date.parse(`${expiresAt}`) - Date.now()) / 3_600_000).toBeCloseTo(24, 1);
      await page.getByRole("row", { name: prefix }).getByText("rotated", { exact: true }).first().waitFor();

      const newPrefix = newKey.slice(0, 12);
      await submit(await openDialog(page, `Revoke ${newPrefix}`, `Revoke ${newPrefix}…`), "Revoke");
      await waitForNotice(page, `${newPrefix}… was revoked.`);
      await expect.poll(() => status(newKey)).toBe(401);
      await page.reload();
      await page.getByRole("row", { name: newPrefix }).getByText("revoked", { exact: true }).first().waitFor();
      expect(await page.content()).not.toContain(newKey);

      const membership = await openDialog(page, "Set the role on a listing");
      await fillIn(membership, { Listing: listing.id });
      await membership.getByLabel("Role").selectOption("READER");
      await submit(membership, "Set the role");
      await page.getByRole("row", { name: `${listing.title} READER` }).waitFor();
      await submit(await openDialog(page, `Remove ines@people.test from ${listing.title}`, "Remove"), "Remove");
      await waitForNotice(page, `ines@people.test was removed from ${listing.title}.`);
      expect((await operator.members.list({ userId: id })).items).toEqual([]);
    },
    { permissions: ["clipboard-read", "clipboard-write"] },
  );
  const changes = ["user.created", "user.updated", "key.issued", "key.rotated", "key.revoked"];
  expect((await changesOf(id)).filter((action) => !action.startsWith("member."))).toEqual(changes);
  const issued = await Promise.all(keys.map(async (key) => changesOf((await operator.keys.find({ key })).id)));
  expect(issued).toEqual([["key.issued", "key.rotated"], expect.arrayContaining(["key.revoked"])]);
});
