import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import {
  asOperator,
  catchErrorCode,
  createFormWithOutcome,
  listNotifications,
  openTestServices,
} from "../support/factories.js";
import { type ListingOwner, makeListingOwner } from "../support/listing-owner.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { fixedStay } from "../support/stays.js";

const ADDRESS = "unmistakable.guest@mail.example.com";
const CORRELATION_ID = "6f0d9b9e-3c55-4a4e-9f5a-6d6f4b1c2d3e";

let services: Services;
let owner: ListingOwner;

beforeAll(async () => {
  services = await openTestServices();
  owner = await makeListingOwner(services);
});

beforeEach(() => services.db.pool.query("TRUNCATE forms, audit_entries CASCADE"));

const listUnsent = () => listNotifications(services);
const firstUnsent = async () => (await listUnsent())[0];
const create = async () => {
  const body = fixedStay(owner.listingId, { guestEmail: ADDRESS });
  const options = { correlationId: CORRELATION_ID };
  return (await createFormWithOutcome(services, owner.principal, body, options)).form;
};
// Forms are created before the worker starts, so that it need not poll again.
describe("a failed attempt", () => {
  test.each([
    [
      "that was rejected temporarily is logged as a warning and retried",
      { code: 451, text: "mailbox busy" },
      { attempts: 1, state: "retrying", level: "warn", message: "notification not sent" },
    ],
    [
      "that was rejected permanently is logged as an error and given up",
      { code: 550, text: "no such mailbox" },
      { attempts: 1, state: "failed", level: "error", message: "notification given up" },
    ],
    [
      "that was the last one is logged as an error and given up",
      { code: 451, text: "mailbox busy" },
      { attempts: 25, state: "failed", level: "error", message: "notification given up" },
    ],
  ] as const)(
    "%s, in one line with the correlation id of the create and no stack",
    async (_, smtpError, { attempts, state, level, message }) => {
      const mailServer = await openMailServer();
      mailServer.rcptErrors.push({ ...smtpError, text: `<${ADDRESS}>: ${smtpError.text}` });
      const { id: formId } = await create();
      await services.db.pool.query("UPDATE notifications SET attempts = $1", [attempts - 1]);
      const lines = await startTestWorker(await openServicesWithMail(services, mailServer.url));
      await expect.poll(async () => (await firstUnsent())?.state).toBe(state);
      const [unsent] = await listUnsent();
      const lastError = expect.stringContaining(smtpError.text);
      const runAt = state === "failed" ? null : expect.any(String);
      expect(unsent).toEqual({ id: expect.any(String), formId, state, attempts, lastError, runAt });
      const reason = expect.stringMatching(new RegExp(`^[^\\n]*${smtpError.text}[^\\n]*$`));
      const facts = { notificationId: unsent?.id, formId, correlationId: CORRELATION_ID, attempts, reason };
      expect(lines).toEqual([{ level, facts, message }]);
      expect(JSON.stringify([unsent, lines])).not.toMatch(/unmistakable|mail\.example/);
      expect([mailServer.rcptCount, mailServer.received]).toEqual([1, []]);
      expect(await asOperator(services).audit.trace({ correlationId: CORRELATION_ID })).toMatchObject({
        entries: [{ action: "form.created", subjectId: formId }],
      });
    },
  );

  test("is logged with the stack if the error is not a rejection", async () => {
    const mailServer = await openMailServer();
    await create();
    // Not sealed by the service, so opening it fails.
    await services.db.pool.query("UPDATE forms SET guest_email = $1", [Buffer.alloc(40)]);
    const lines = await startTestWorker(await openServicesWithMail(services, mailServer.url));
    await expect.poll(() => lines.map(({ message }) => message)).toEqual(["notification not sent"]);
    expect(lines[0]?.facts).toMatchObject({ correlationId: CORRELATION_ID, err: expect.any(Error) });
  });
});

describe("notifications.retry", () => {
  test("makes a running worker send a failed notification, and is audited", async () => {
    const mailServer = await openMailServer();
    mailServer.rcptErrors.push({ code: 550, text: "no such mailbox" });
    const { id: formId } = await create();
    await startTestWorker(await openServicesWithMail(services, mailServer.url));
    await expect.poll(async () => (await firstUnsent())?.state).toBe("failed");
    const { id = "" } = (await firstUnsent()) ?? {};
    const retried = await asOperator(services).notifications.retry({ id });
    expect(retried).toMatchObject({ id, formId, state: "waiting", attempts: 0 });
    await expect.poll(listUnsent).toEqual([]);
    expect(mailServer.received).toHaveLength(1);
    const [last] = await asOperator(services).audit.trail({ subjectId: formId });
    expect(last).toMatchObject({
      action: "notification.retried",
      actor: "operator",
      details: { notificationId: id },
    });
    expect(await catchErrorCode(asOperator(services).notifications.retry({ id }))).toBe("RESOURCE_NOT_FOUND");
  });

  test("changes nothing while an attempt is running, even the last one", async () => {
    const mailServer = await openMailServer();
    mailServer.holdRcpt();
    const { id: formId } = await create();
    await services.db.pool.query("UPDATE notifications SET attempts = 24");
    await startTestWorker(await openServicesWithMail(services, mailServer.url));
    await expect.poll(() => mailServer.rcptCount).toBe(1);
    const { id = "" } = (await firstUnsent()) ?? {};
    expect(await firstUnsent()).toMatchObject({ state: "running", attempts: 25 });
    expect(await asOperator(services).notifications.retry({ id })).toEqual(await firstUnsent());
    const trail = await asOperator(services).audit.trail({ subjectId: formId });
    expect(trail.map(({ action }) => action)).toEqual(["form.created"]);
    mailServer.releaseRcpt();
    await expect.poll(listUnsent).toEqual([]);
    expect(mailServer.received).toHaveLength(1);
  });

  test("is RESOURCE_NOT_FOUND for an id that is unknown or not a positive 64-bit integer", async () => {
    const { notifications } = asOperator(services);
    for (const id of ["999999", "0", "-1", "x", "", "1e3", "9".repeat(18), "9".repeat(30)]) {
      expect([id, await catchErrorCode(notifications.retry({ id }))]).toEqual([id, "RESOURCE_NOT_FOUND"]);
    }
  });
});
