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

// Some start several processes.
vi.setConfig({ testTimeout: 90_000 });

const ADDRESS = "unmistakable.guest@mail.example.com";

let services: Services;
let owner: ListingOwner;

beforeEach(async () => {
  services = await openTestServices();
  owner = await makeListingOwner(services);
});

const waiting = () => asOperator(services).notifications.list();
const only = async () => (await waiting())[0];
const create = () => owner.create(fixedStay(owner.listingId, { guestEmail: ADDRESS }));
const eventually = <Result>(look: () => Result, timeout = 40_000) =>
  expect.poll(look, { timeout, interval: 50 });

describe("what the mail server refuses", () => {
  const gone: SmtpError = { code: 550, text: `<${ADDRESS}>: no such mailbox` };

  test.each([
    ["the address", { refusals: [gone], returns: [] }, "no such mailbox"],
    ["the message", { refusals: [], returns: [{ code: 554, text: "looks like spam" }] }, "looks like spam"],
  ])("for good is final at once, and visible with its reason: %s", async (_, refused, reason) => {
    const office = await openMailServer();
    office.rcptErrors.push(...refused.refusals);
    office.dataErrors.push(...refused.returns);
    await startTestWorker(await openServicesWithMail(services, office.url));
    const { form } = await create();
    await eventually(async () => (await only())?.state).toBe("failed");
    expect(await waiting()).toEqual([
      expect.objectContaining({
        formId: form.id,
        attempts: 1,
        lastError: expect.stringContaining(reason),
        runAt: null,
      }),
    ]);
    expect(JSON.stringify(await waiting())).not.toMatch(/unmistakable|mail\.example/);
    expect(office.received).toEqual([]);
    expect(office.rcptCount).toBe(1);
  });

  test.each([
    ["the address for now", { refusals: [{ code: 450, text: "later" }], returns: [] }],
    ["the message for now", { refusals: [], returns: [{ code: 452, text: "full" }] }],
  ])("is tried again: %s", async (_, refused) => {
    const office = await openMailServer();
    office.rcptErrors.push(...refused.refusals);
    office.dataErrors.push(...refused.returns);
    await startTestWorker(await openServicesWithMail(services, office.url));
    await create();
    await eventually(() => office.received.length).toBe(1);
    await eventually(waiting).toEqual([]);
    expect(office.rcptCount).toBe(2);
  });

  test("with the guest's link in its reply is recorded without the link", async () => {
    const office = await openMailServer();
    const [before] = mailEnv(office.url).FORM_URL_TEMPLATE.split("{publicId}");
    office.dataErrors.push({ code: 554, text: `blocked ${before}V1StGXR8_Z5jdHi6B-myT by a list` });
    const lines = await startTestWorker(await openServicesWithMail(services, office.url));
    await create();
    await eventually(async () => (await only())?.state).toBe("failed");
    expect((await only())?.lastError).toContain("blocked [link] by a list");
    expect(JSON.stringify(lines)).not.toContain("V1StGXR8");
  });

  test("with control characters in its reply is recorded without them", async () => {
    const url = await openScriptedSmtpServer((socket) => {
      socket.write("220 hello\r\n");
      socket.on("data", (line) =>
        socket.write(/^RCPT/.test(String(line)) ? "550 no\0 \x1bsuch mail\x85box\r\n" : "250 fine\r\n"),
      );
    });
    await startTestWorker(await openServicesWithMail(services, url));
    await create();
    await eventually(async () => (await only())?.state).toBe("failed");
    expect((await only())?.lastError).toMatch(/550 no such mail\P{Cc}*box$/u);
  });

  test.each([
    ["the login", { authOptional: false, disabledCommands: ["STARTTLS"], onAuth: refuse(535) }],
    ["the sender", { onMailFrom: (...given: unknown[]) => refuse(550)(...given) }],
  ])("for a fault of the operator's is tried again, whatever it says: %s", async (_, options) => {
    const office = await openMailServer(options);
    await startTestWorker(await openServicesWithMail(services, office.url.replace("//", "//user:wrong@")));
    await create();
    await eventually(async () => (await only())?.lastError).toMatch(/53|55/);
    expect(await only()).toMatchObject({ state: "retrying" });
  });
});

/** Refuses whatever smtp-server asks it about. */
function refuse(code: number) {
  return (...given: unknown[]) => {
    const done = given.at(-1) as (error: Error) => void;
    done(Object.assign(new Error("refused"), { responseCode: code }));
  };
}

describe("the log of a message that was not sent", () => {
  const CORRELATION_ID = "6f0d9b9e-3c55-4a4e-9f5a-6d6f4b1c2d3e";
  const createTraced = () =>
    createFormWithOutcome(services, owner.principal, fixedStay(owner.listingId, { guestEmail: ADDRESS }), {
      correlationId: CORRELATION_ID,
    });

  test.each([
    [
      "a warning that it is tried again",
      { code: 451, text: "mailbox busy" },
      1,
      "warn",
      "notification not sent",
    ],
    [
      "an error that it is given up",
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
    "is one line with the create's correlation id and no stack: %s",
    async (_, said, attempts, level, message) => {
      const office = await openMailServer();
      office.rcptErrors.push(said);
      const { form } = await createTraced();
      await services.db.pool.query("UPDATE notifications SET attempts = $1", [attempts - 1]);
      const lines = await startTestWorker(await openServicesWithMail(services, office.url));
      await eventually(async () => (await only())?.lastError).toContain(said.text);
      const { id: notificationId } = (await only()) ?? {};
      const reason = expect.stringMatching(new RegExp(`^[^\\n]*${said.text}[^\\n]*$`));
      const facts = { notificationId, formId: form.id, correlationId: CORRELATION_ID, attempts, reason };
      expect(lines).toEqual([{ level, facts, message }]);
      expect(await asOperator(services).audit.trace({ correlationId: CORRELATION_ID })).toMatchObject({
        entries: [{ action: "form.created", subjectId: form.id }],
      });
    },
  );

  test("has the stack of what is no refusal", async () => {
    const office = await openMailServer();
    await createTraced();
    // As nothing of the service has sealed it.
    await services.db.pool.query("UPDATE forms SET guest_email = $1", [Buffer.alloc(40)]);
    const lines = await startTestWorker(await openServicesWithMail(services, office.url));
    await eventually(() => lines.map(({ message }) => message)).toEqual(["notification not sent"]);
    expect(lines[0]?.facts).toMatchObject({ correlationId: CORRELATION_ID, err: expect.any(Error) });
  });
});

describe("a notification that an operator retries", () => {
  test("is sent at once though it had failed, and the retry is audited", async () => {
    const office = await openMailServer();
    office.rcptErrors.push({ code: 550, text: "no such mailbox" });
    await startTestWorker(await openServicesWithMail(services, office.url));
    const { form } = await create();
    await eventually(async () => (await only())?.state).toBe("failed");
    const { id = "" } = (await only()) ?? {};
    const retried = await asOperator(services).notifications.retry({ id });
    expect(retried).toMatchObject({ id, formId: form.id, state: "waiting", attempts: 0 });
    await eventually(() => office.received.length).toBe(1);
    await eventually(waiting).toEqual([]);
    const [last] = await asOperator(services).audit.trail({ subjectId: form.id });
    expect(last).toMatchObject({
      action: "notification.retried",
      actor: "operator",
      details: { notificationId: id },
    });
    expect(await catchErrorCode(asOperator(services).notifications.retry({ id }))).toBe("RESOURCE_NOT_FOUND");
  });

  test("is left to its attempt while that is under way, which shows as running to the last", async () => {
    const office = await openMailServer();
    office.holdRcpt();
    const { form } = await create();
    await services.db.pool.query("UPDATE notifications SET attempts = 24");
    await startTestWorker(await openServicesWithMail(services, office.url));
    await eventually(() => office.rcptCount).toBe(1);
    const { id = "" } = (await only()) ?? {};
    expect(await only()).toMatchObject({ state: "running", attempts: 25 });
    expect(await asOperator(services).notifications.retry({ id })).toEqual(await only());
    const trail = await asOperator(services).audit.trail({ subjectId: form.id });
    expect(trail.map(({ action }) => action)).toEqual(["form.created"]);
    office.releaseRcpt();
    await eventually(waiting).toEqual([]);
    expect(office.received).toHaveLength(1);
  });

  test.each(["999999", "0", "-1", "x", "", "1e3", "9".repeat(18), "9".repeat(30)])(
    "must be one: %j",
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

  test.each(kinds)("%s is not made where its certificate is not trusted", async (scheme, options) => {
    const office = await openMailServer(options);
    await startTestWorker(await openServicesWithMail(services, `${scheme}://localhost:${office.port}`));
    await create();
    await eventually(async () => (await only())?.lastError).toMatch(/self-signed certificate/);
    expect(await only()).toMatchObject({ state: "retrying" });
    expect([office.rcptCount, office.received]).toEqual([0, []]);
  });

  test.each(kinds)(
    "%s is encrypted, to a server not verified where the address says so",
    async (scheme, options) => {
      const office = await openMailServer(options);
      await startTestWorker(
        await openServicesWithMail(
          services,
          `${scheme}://localhost:${office.port}?tls.rejectUnauthorized=false`,
        ),
      );
      await create();
      await eventually(() => office.received.map(({ secure, to }) => ({ secure, to }))).toEqual([
        { secure: true, to: [ADDRESS] },
      ]);
    },
  );

  test.each(kinds)(
    "%s is made to a server whose certificate is trusted, by its name alone",
    async (scheme, options) => {
      const office = await openMailServer(options);
      const folder = await mkdtemp(join(tmpdir(), "guest-forms-certificate-"));
      onTestFinished(() => rm(folder, { recursive: true }));
      const file = join(folder, "authority.pem");
      await writeFile(file, cert);
      const env = commandEnv(services, { NODE_EXTRA_CA_CERTS: file });
      await create();
      const misnamed = spawnCli(["worker"], {
        env: { ...env, ...mailEnv(`${scheme}://127.0.0.1:${office.port}`) },
      });
      await eventually(async () => (await only())?.lastError).toMatch(
        /does not match certificate's altnames/,
      );
      await misnamed.stop();
      expect(office.received).toEqual([]);
      spawnCli(["worker"], { env: { ...env, ...mailEnv(`${scheme}://localhost:${office.port}`) } });
      await eventually(() => office.received.map(({ secure }) => secure)).toEqual([true]);
    },
  );

  test("that must be encrypted is not made to a server that cannot", async () => {
    const office = await openMailServer();
    await startTestWorker(await openServicesWithMail(services, `${office.url}?requireTLS=true`));
    await create();
    await eventually(async () => (await only())?.lastError).toMatch(/TLS/);
    expect(office.rcptCount).toBe(0);
  });
});

describe("a mail server that hangs holds no job for long", () => {
  test.each([
    ["before its greeting", () => {}],
    [
      "within the dialogue",
      (socket: Socket) => {
        socket.write("220 hello\r\n");
        socket.once("data", () => socket.write("250 hello\r\n"));
      },
    ],
    [
      "though it keeps talking",
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
    await eventually(async () => (await only())?.state).toBe("retrying");
    expect((await only())?.lastError).toMatch(/timeout|never received|abort/i);
  });
});
