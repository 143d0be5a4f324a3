import { describe, expect, test } from "vitest";
import { shortId } from "../../gateway/console/short-id.js";
import { openTestCore } from "../support/core.js";
import { openDatabaseOnDisk } from "../support/full-disk.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { commandsWith, runInProcess } from "../support/run-in-process.js";
import { fixedStay } from "../support/stays.js";

// The questions of an operator at night. Each is answered by one command.

const { services, owner, operator, sql } = await openTestCore();
const { text, json } = commandsWith({ DATABASE_URL: services.db.url });
const { forms, listingId } = owner;

const ADDRESS = "ada.guest@mail.example.com";
const stay = fixedStay(listingId, { guestEmail: ADDRESS, externalId: "booking-4711" });
const form = await forms.create(stay);

describe("why did this guest get no email?", () => {
  test.each([
    [
      "the mail server rejected the address",
      [{ code: 550, text: "5.1.1 no such user" }],
      /failed .* 5\.1\.1 no such user/,
    ],
    [
      "the mail server has accepted it, with the id in its queue",
      [],
      /sent .*<form-\S+@example\.com> +250 OK: message queued/,
    ],
  ])("%s: `forms show` says so, whatever names the form", async (_, rejections, says) => {
    await sql("UPDATE emails SET state = 'waiting', attempts = 0, next_attempt_at = now(), ended_at = NULL");
    const mailServer = await openMailServer();
    mailServer.rcptErrors.push(...rejections);
    await startTestWorker(await openServicesWithMail(services, mailServer.url));
    const state = rejections.length > 0 ? "failed" : "sent";
    await expect.poll(async () => (await operator.emails.list({ formId: form.id })).items[0]?.state).toBe(state);
    for (const name of [form.id, shortId(form.id), "booking-4711", `https://app.example.com/${form.publicId}`])
      expect(await text("forms", "show", name)).toMatch(says);
  });

  test("it came back later: `forms show` says so once that is recorded", async () => {
    await json("emails", "bounced", ADDRESS, "--reason", `550 <${ADDRESS}>: mailbox full`);
    expect(await text("forms", "show", form.id)).toMatch(/bounced .* 550 <a\*\*\*@m\*\*\*\.com>: mailbox full/);
  });

  test("once it is dealt with, `emails dismiss` ends the warning, for one or for all", async () => {
    const [{ id } = { id: "" }] = (await operator.emails.list({ state: "bounced" })).items;
    expect(await json("emails", "dismiss", id)).toMatchObject({ id, state: "dismissed" });
    expect(await runInProcess(["emails", "dismiss", id], { DATABASE_URL: services.db.url })).toMatchObject({
      code: 1,
      message: "There is no failed or bounced email with this id.",
    });
    await sql("UPDATE emails SET state = 'failed'");
    expect(await text("emails", "dismiss", "--all")).toContain("Emails that were dismissed: 1.");
    expect(await text("emails", "list")).toContain("There are no unsent emails.");
  });
});

test("which guest has this address? `find` lists the forms, and the look-up is audited", async () => {
  const { hits, unreadable } = await json("find", ADDRESS.toUpperCase());
  expect([hits, unreadable]).toEqual([[expect.objectContaining({ kind: "form", id: form.id })], 0]);
  expect(await json("forms", "list", "--external-id", "booking-4711")).toMatchObject({ items: [{ id: form.id }] });
  const [entry] = await operator.audit.trail({ subjectId: form.id });
  expect(entry).toMatchObject({ action: "person.looked_up", actor: "operator" });
});

test("who moved this form? `forms trail` names who, from where, and the request", async () => {
  const { id: there } = await operator.listings.create({
    ...{ ownerId: owner.userId, title: "Barn", address: "Weg 1", city: "Ulm", country: "Germany", zipCode: "89073" },
    timezone: "Europe/Berlin",
  });
  await forms.update({ id: form.id, ...stay, listingId: there });
  const [entry] = await json("forms", "trail", "booking-4711");
  expect(entry).toMatchObject({
    ...{ action: "form.updated", actor: "user", actorId: owner.userId },
    details: { movedFrom: listingId, listingId: there },
  });
  expect((await json("trace", entry.correlationId)).entries).toContainEqual(entry);
});

describe("is anything wrong right now? `doctor` says so", () => {
  interface Check {
    name: string;
    status: string;
    message: string;
  }

  const check = async (url: string, name: string): Promise<Check> => {
    const { json: run } = commandsWith({ DATABASE_URL: url });
    const { checks } = (await run("doctor")) as { checks: Check[] };
    return checks.find((each) => each.name === name) ?? expect.fail(`no check ${name}`);
  };
  const url = services.db.url;

  test("the worker has stopped", async () => {
    await sql("UPDATE worker_activity SET last_at = now() - interval '1 minute' WHERE name LIKE 'worker.%'");
    expect(await check(url, "workers")).toMatchObject({
      status: "warning",
      message: expect.stringMatching(/^No worker has sent a heartbeat since \S+: run `serve` or `worker`\.$/),
    });
  });

  test("an endpoint fails, and one was disabled because it failed, until somebody disables it", async () => {
    const { id } = await operator.webhooks.create({ url: "https://receiver.example.com/" });
    const failing = await operator.webhooks.create({ url: "https://failing.example.com/" });
    expect(await check(url, "webhooks")).toMatchObject({ status: "ok" });
    await sql("UPDATE webhook_endpoints SET failing_since = now() WHERE id = $1", failing.id);
    await sql("UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'failing' WHERE id = $1", id);
    const { status, message } = await check(url, "webhooks");
    expect(status).toBe("warning");
    expect(message).toMatch(/^Endpoints that fail: 1\. .* Endpoints disabled because they failed: 1\./);
    const { disabledAt } = await operator.webhooks.get({ id });
    expect(await operator.webhooks.disable({ id })).toMatchObject({ disabledAt, disabledReason: "manual" });
    await sql("UPDATE webhook_endpoints SET failing_since = NULL");
    expect(await check(url, "webhooks")).toMatchObject({ status: "ok" });
  });

  test("the disk is full", async () => {
    const disk = await openDatabaseOnDisk();
    expect(await check(disk.url, "writes")).toMatchObject({ status: "ok" });
    await disk.fill();
    const { stdout, code } = await runInProcess(["doctor", "--json"], { DATABASE_URL: disk.url });
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /"writes","status":"failed","message":"Requests cannot write: the database server has no disk space left/,
    );
  });
});
