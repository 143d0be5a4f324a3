import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { Services } from "../../server/context.js";
import {
  asOperator,
  catchErrorCode,
  createFormWithOutcome,
  fixedStay,
  openTestServices,
} from "../factories.js";
import { spawnCli } from "../harness.js";
import { createSelfSignedCertificate } from "./certificate.js";
import { type ListingOwner, makeListingOwner } from "./listing-owner.js";
import {
  commandEnv,
  mailEnv,
  openMailServer,
  openScriptedSmtpServer,
  openServicesWithMail,
  type SmtpError,
  startTestWorker,
} from "./mail-server.js";

// Some tests start several processes.
vi.setConfig({ testTimeout: 90_000 });

const ADDRESS = "unmistakable.guest@mail.example.com";

let services: Services;
let owner: ListingOwner;

beforeEach(async () => {
  services = await openTestServices();
  owner = await makeListingOwner(services);
});

const listUnsent = () => asOperator(services).notifications.list();
const firstUnsent = async () => (await listUnsent())[0];
const create = () => owner.create(fixedStay(owner.listingId, { guestEmail: ADDRESS }));
const expectEventually = <Result>(read: () => Result, timeout = 40_000) =>
  expect.poll(read, { timeout, interval: 50 });

describe("a rejection by the mail server", () => {
  const noSuchMailbox: SmtpError = { code: 550, text: `<${ADDRESS}>: no such mailbox` };

  test.each([
    ["the recipient", { recipient: [noSuchMailbox], message: [] }, "no such mailbox"],
    ["the message", { recipient: [], message: [{ code: 554, text: "looks like spam" }] }, "looks like spam"],
  ])(
    "is not retried if it is permanent, and notifications.list shows its reason: %s",
    async (_, errors, reason) => {
      const mailServer = await openMailServer();
      mailServer.rcptErrors.push(...errors.recipient);
      mailServer.dataErrors.push(...errors.message);
      await startTestWorker(await openServicesWithMail(services, mailServer.url));
      const { form } = await create();
      await expectEventually(async () => (await firstUnsent())?.state).toBe("failed");
      expect(await listUnsent()).toEqual([
        expect.objectContaining({
          formId: form.id,
          attempts: 1,
          lastError: expect.stringContaining(reason),
          runAt: null,
        }),
      ]);
      expect(JSON.stringify(await listUnsent())).not.toMatch(/unmistakable|mail\.example/);
      expect(mailServer.received).toEqual([]);
      expect(mailServer.rcptCount).toBe(1);
    },
  );

  test.each([
    ["the recipient", { recipient: [{ code: 450, text: "later" }], message: [] }],
    ["the message", { recipient: [], message: [{ code: 452, text: "full" }] }],
  ])("is retried if it is temporary: %s", async (_, errors) => {
    const mailServer = await openMailServer();
    mailServer.rcptErrors.push(...errors.recipient);
    mailServer.dataErrors.push(...errors.message);
    await startTestWorker(await openServicesWithMail(services, mailServer.url));
    await create();
    await expectEventually(() => mailServer.received.length).toBe(1);
    await expectEventually(listUnsent).toEqual([]);
    expect(mailServer.rcptCount).toBe(2);
  });

  test("that quotes the guest's link is recorded without the link", async () => {
    const mailServer = await openMailServer();
    const [before] = mailEnv(mailServer.url).FORM_URL_TEMPLATE.split("{publicId}");
    mailServer.dataErrors.push({ code: 554, text: `blocked ${before}V1StGXR8_Z5jdHi6B-myT by a list` });
    const lines = await startTestWorker(await openServicesWithMail(services, mailServer.url));
    await create();
    await expectEventually(async () => (await firstUnsent())?.state).toBe("failed");
    expect((await firstUnsent())?.lastError).toContain("blocked [link] by a list");
    expect(JSON.stringify(lines)).not.toContain("V1StGXR8");
  });

  test("that contains control characters is recorded without them", async () => {
    const url = await openScriptedSmtpServer((socket) => {
      socket.write("220 hello\r\n");
      socket.on("data", (line) =>
        socket.write(/^RCPT/.test(String(line)) ? "550 no\0 \x1bsuch mail\x85box\r\n" : "250 fine\r\n"),
      );
    });
    await startTestWorker(await openServicesWithMail(services, url));
    await create();
    await expectEventually(async () => (await firstUnsent())?.state).toBe("failed");
    expect((await firstUnsent())?.lastError).toMatch(/550 no such mail\P{Cc}*box$/u);
  });

  test.each([
    ["the login", { authOptional: false, disabledCommands: ["STARTTLS"], onAuth: rejectWith(535) }],
    ["the sender", { onMailFrom: (...args: unknown[]) => rejectWith(550)(...args) }],
  ])("of the login or the sender is retried, even if it is permanent: %s", async (_, options) => {
    const mailServer = await openMailServer(options);
    await startTestWorker(
      await openServicesWithMail(services, mailServer.url.replace("//", "//user:wrong@")),
    );
    await create();
    await expectEventually(async () => (await firstUnsent())?.lastError).toMatch(/53|55/);
    expect(await firstUnsent()).toMatchObject({ state: "retrying" });
  });
});

/** Returns an smtp-server handler that rejects with this code. */
function rejectWith(code: number) {
  return (...args: unknown[]) => {
    const done = args.at(-1) as (error: Error) => void;
    done(Object.assign(new Error("rejected"), { responseCode: code }));
  };
}

describe("the log of a failed attempt", () => {
  const CORRELATION_ID = "6f0d9b9e-3c55-4a4e-9f5a-6d6f4b1c2d3e";
  const createWithCorrelationId = () =>
    createFormWithOutcome(services, owner.principal, fixedStay(owner.listingId, { guestEmail: ADDRESS }), {
      correlationId: CORRELATION_ID,
    });

  test.each([
    ["a warning if it is retried", { code: 451, text: "mailbox busy" }, 1, "warn", "notification not sent"],
    [
      "an error if the rejection is permanent",
      { code: 550, text: "no such mailbox" },
      1,
      "error",
      "notification given up",
    ],
    [
      "an error after the last attempt",
      { code: 451, text: "mailbox busy" },
      25,
      "error",
      "notification given up",
    ],
  ] as const)(
    "is one line with the correlation id of the create and no stack: %s",
    async (_, smtpError, attempts, level, message) => {
      const mailServer = await openMailServer();
      mailServer.rcptErrors.push(smtpError);
      const { form } = await createWithCorrelationId();
      await services.db.pool.query("UPDATE notifications SET attempts = $1", [attempts - 1]);
      const lines = await startTestWorker(await openServicesWithMail(services, mailServer.url));
      await expectEventually(async () => (await firstUnsent())?.lastError).toContain(smtpError.text);
      const { id: notificationId } = (await firstUnsent()) ?? {};
      const reason = expect.stringMatching(new RegExp(`^[^\\n]*${smtpError.text}[^\\n]*$`));
      const facts = { notificationId, formId: form.id, correlationId: CORRELATION_ID, attempts, reason };
      expect(lines).toEqual([{ level, facts, message }]);
      expect(await asOperator(services).audit.trace({ correlationId: CORRELATION_ID })).toMatchObject({
        entries: [{ action: "form.created", subjectId: form.id }],
      });
    },
  );

  test("has the stack if the error is not a rejection", async () => {
    const mailServer = await openMailServer();
    await createWithCorrelationId();
    // Not sealed by the service, so opening it fails.
    await services.db.pool.query("UPDATE forms SET guest_email = $1", [Buffer.alloc(40)]);
    const lines = await startTestWorker(await openServicesWithMail(services, mailServer.url));
    await expectEventually(() => lines.map(({ message }) => message)).toEqual(["notification not sent"]);
    expect(lines[0]?.facts).toMatchObject({ correlationId: CORRELATION_ID, err: expect.any(Error) });
  });
});

describe("notifications.retry", () => {
  test("sends a failed notification immediately, and is audited", async () => {
    const mailServer = await openMailServer();
    mailServer.rcptErrors.push({ code: 550, text: "no such mailbox" });
    await startTestWorker(await openServicesWithMail(services, mailServer.url));
    const { form } = await create();
    await expectEventually(async () => (await firstUnsent())?.state).toBe("failed");
    const { id = "" } = (await firstUnsent()) ?? {};
    const retried = await asOperator(services).notifications.retry({ id });
    expect(retried).toMatchObject({ id, formId: form.id, state: "waiting", attempts: 0 });
    await expectEventually(() => mailServer.received.length).toBe(1);
    await expectEventually(listUnsent).toEqual([]);
    const [last] = await asOperator(services).audit.trail({ subjectId: form.id });
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
    const { form } = await create();
    await services.db.pool.query("UPDATE notifications SET attempts = 24");
    await startTestWorker(await openServicesWithMail(services, mailServer.url));
    await expectEventually(() => mailServer.rcptCount).toBe(1);
    const { id = "" } = (await firstUnsent()) ?? {};
    expect(await firstUnsent()).toMatchObject({ state: "running", attempts: 25 });
    expect(await asOperator(services).notifications.retry({ id })).toEqual(await firstUnsent());
    const trail = await asOperator(services).audit.trail({ subjectId: form.id });
    expect(trail.map(({ action }) => action)).toEqual(["form.created"]);
    mailServer.releaseRcpt();
    await expectEventually(listUnsent).toEqual([]);
    expect(mailServer.received).toHaveLength(1);
  });

  test.each(["999999", "0", "-1", "x", "", "1e3", "9".repeat(18), "9".repeat(30)])(
    "rejects the id %j with RESOURCE_NOT_FOUND",
    async (id) => {
      expect(await catchErrorCode(asOperator(services).notifications.retry({ id }))).toBe(
        "RESOURCE_NOT_FOUND",
      );
    },
  );
});

describe("a connection to the mail server", () => {
  const { key, cert } = createSelfSignedCertificate("localhost");
  const kinds = [
    ["smtps", { secure: true, key, cert }],
    ["smtp", { secure: false, key, cert }],
  ] as const;

  test.each(kinds)("%s sends nothing if the certificate is not trusted", async (scheme, options) => {
    const mailServer = await openMailServer(options);
    await startTestWorker(await openServicesWithMail(services, `${scheme}://localhost:${mailServer.port}`));
    await create();
    await expectEventually(async () => (await firstUnsent())?.lastError).toMatch(/self-signed certificate/);
    expect(await firstUnsent()).toMatchObject({ state: "retrying" });
    expect([mailServer.rcptCount, mailServer.received]).toEqual([0, []]);
  });

  test.each(kinds)(
    "%s is encrypted, and not verified with tls.rejectUnauthorized=false in SMTP_URL",
    async (scheme, options) => {
      const mailServer = await openMailServer(options);
      await startTestWorker(
        await openServicesWithMail(
          services,
          `${scheme}://localhost:${mailServer.port}?tls.rejectUnauthorized=false`,
        ),
      );
      await create();
      await expectEventually(() => mailServer.received.map(({ secure, to }) => ({ secure, to }))).toEqual([
        { secure: true, to: [ADDRESS] },
      ]);
    },
  );

  test.each(kinds)(
    "%s with a trusted certificate is accepted only for its host name",
    async (scheme, options) => {
      const mailServer = await openMailServer(options);
      const folder = await mkdtemp(join(tmpdir(), "guest-forms-certificate-"));
      onTestFinished(() => rm(folder, { recursive: true }));
      const file = join(folder, "authority.pem");
      await writeFile(file, cert);
      const env = commandEnv(services, { NODE_EXTRA_CA_CERTS: file });
      await create();
      const wrongHost = spawnCli(["worker"], {
        env: { ...env, ...mailEnv(`${scheme}://127.0.0.1:${mailServer.port}`) },
      });
      await expectEventually(async () => (await firstUnsent())?.lastError).toMatch(
        /does not match certificate's altnames/,
      );
      await wrongHost.stop();
      expect(mailServer.received).toEqual([]);
      spawnCli(["worker"], { env: { ...env, ...mailEnv(`${scheme}://localhost:${mailServer.port}`) } });
      await expectEventually(() => mailServer.received.map(({ secure }) => secure)).toEqual([true]);
    },
  );

  test("with requireTLS sends nothing to a server without TLS", async () => {
    const mailServer = await openMailServer();
    await startTestWorker(await openServicesWithMail(services, `${mailServer.url}?requireTLS=true`));
    await create();
    await expectEventually(async () => (await firstUnsent())?.lastError).toMatch(/TLS/);
    expect(mailServer.rcptCount).toBe(0);
  });
});

describe("an attempt is ended after SMTP_TIMEOUT_SECONDS if the mail server", () => {
  test.each([
    ["sends no greeting", () => {}],
    [
      "stops responding after its greeting",
      (socket: Socket) => {
        socket.write("220 hello\r\n");
        socket.once("data", () => socket.write("250 hello\r\n"));
      },
    ],
    [
      "keeps sending continuation lines",
      (socket: Socket) => {
        socket.write("220 hello\r\n");
        const timer = setInterval(() => socket.write("250-still here\r\n"), 200);
        socket.once("close", () => clearInterval(timer));
      },
    ],
  ])("%s", async (_, serve) => {
    const url = await openScriptedSmtpServer(serve);
    await startTestWorker(await openServicesWithMail(services, url, { SMTP_TIMEOUT_SECONDS: "1" }));
    await create();
    await expectEventually(async () => (await firstUnsent())?.state).toBe("retrying");
    expect((await firstUnsent())?.lastError).toMatch(/timeout|never received|abort/i);
  });
});
