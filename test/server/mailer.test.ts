import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { readSettings } from "../../server/config.js";
import { MailRejected, smtpMailer } from "../../server/emails/mailer.js";
import { flood } from "../support/hostile-receivers.js";
import { mailEnv, openMailServer, openScriptedSmtpServer } from "../support/mail-server.js";
import { spawnNode } from "../support/processes.js";

const ADDRESS = "unmistakable.guest@mail.example.com";
const MESSAGE = { from: { name: "", address: "host@example.com" }, to: ADDRESS, subject: "Hello", text: "Hello" };

/** Sends a message to this server. Returns why it was not accepted; undefined if it was. */
async function send(smtpUrl: string, timeoutSeconds = 30): Promise<MailRejected | undefined> {
  const settings = { ...readSettings(mailEnv(smtpUrl)), SMTP_TIMEOUT_SECONDS: timeoutSeconds };
  const mailer = await smtpMailer(settings);
  return mailer?.send(MESSAGE, ADDRESS).then(
    () => undefined,
    (error: unknown) => {
      expect(error).toBeInstanceOf(MailRejected);
      return error as MailRejected;
    },
  );
}

/** Returns an smtp-server handler that rejects with this code. */
const rejectWith =
  (responseCode: number) =>
  (...args: unknown[]) => {
    const done = args.at(-1) as (error: Error) => void;
    done(Object.assign(new Error("rejected"), { responseCode }));
  };

describe("a rejection by the mail server", () => {
  test.each([
    ["a permanent rejection of the recipient is final", "rcptErrors", 550, true],
    ["a permanent rejection of the message is final", "dataErrors", 554, true],
    ["a temporary rejection of the recipient is not final", "rcptErrors", 450, false],
    ["a temporary rejection of the message is not final", "dataErrors", 452, false],
  ] as const)("%s, and its reason does not contain the address", async (_, errors, code, isFinal) => {
    const mailServer = await openMailServer();
    mailServer[errors].push({ code, text: `<${ADDRESS}>: no such mailbox` });
    const rejected = await send(mailServer.url);
    expect(rejected).toMatchObject({ isFinal, message: expect.stringContaining("no such mailbox") });
    expect(rejected?.message).not.toMatch(/unmistakable|mail\.example/);
    expect(mailServer.received).toEqual([]);
    expect(await send(mailServer.url)).toBeUndefined();
  });

  test.each([
    ["the login", { authOptional: false, disabledCommands: ["STARTTLS"], onAuth: rejectWith(535) }],
    ["the sender", { onMailFrom: rejectWith(550) }],
  ])("a permanent rejection of %s is not final, because the operator can fix it", async (_, options) => {
    const mailServer = await openMailServer(options);
    const rejected = await send(mailServer.url.replace("//", "//user:wrong@"));
    expect(rejected).toMatchObject({ isFinal: false, message: expect.stringMatching(/53|55/) });
  });

  test("a reason that quotes the guest's link is recorded without the link", async () => {
    const mailServer = await openMailServer();
    const [before] = mailEnv(mailServer.url).FORM_URL_TEMPLATE.split("{publicId}");
    mailServer.dataErrors.push({ code: 554, text: `blocked ${before}V1StGXR8_Z5jdHi6B-myT by a list` });
    const rejected = await send(mailServer.url);
    expect(rejected?.message).toContain("blocked [link] by a list");
    expect(rejected?.message).not.toContain("V1StGXR8");
  });

  test("a reason with control characters is recorded without them", async () => {
    const url = await openScriptedSmtpServer((socket) => {
      socket.write("220 hello\r\n");
      socket.on("data", (line) =>
        socket.write(/^RCPT/.test(String(line)) ? "550 no\0 \x1bsuch mail\x85box\r\n" : "250 fine\r\n"),
      );
    });
    expect((await send(url))?.message).toMatch(/550 no such mail\P{Cc}*box$/u);
  });

  test("a long reason is cut between characters: Postgres would reject half of one", async () => {
    for (const text of ["🏡", "x🏡"]) {
      const mailServer = await openMailServer();
      mailServer.dataErrors.push({ code: 554, text: text + "🏡".repeat(400) });
      const { message = "" } = (await send(mailServer.url)) ?? {};
      expect(message).toMatch(/🏡{100}/u);
      expect(message).not.toMatch(/\p{Cs}/u);
    }
  });
});

describe("a connection to the mail server", () => {
  /** A self-signed certificate of localhost and its key. */
  const file = join(packageRoot(), "test/server/localhost.pem");
  const pem = readFileSync(file, "utf8");
  const kinds = [
    ["smtps", { secure: true, key: pem, cert: pem }],
    ["smtp", { secure: false, key: pem, cert: pem }],
  ] as const;

  test.each(kinds)("%s sends nothing if the certificate is not trusted", async (scheme, options) => {
    const mailServer = await openMailServer(options);
    const rejected = await send(`${scheme}://localhost:${mailServer.port}`);
    const message = expect.stringMatching(/self-signed certificate/);
    expect(rejected).toMatchObject({ isFinal: false, message });
    expect([mailServer.rcptCount, mailServer.received]).toEqual([0, []]);
  });

  test("with a trusted certificate is accepted only for its host name", async () => {
    const servers = [await openMailServer(kinds[0][1]), await openMailServer(kinds[1][1])] as const;
    const urls = ["127.0.0.1", "localhost"].flatMap((host) =>
      servers.map(({ port }, index) => `${kinds[index]?.[0]}://${host}:${port}`),
    );
    // Node.js reads NODE_EXTRA_CA_CERTS only when it starts.
    const modules = ["config", "emails/mailer"].map(
      (name) => pathToFileURL(join(packageRoot(), `dist/tools/server/${name}.js`)).href,
    );
    const script = `
      const [{ readSettings }, { smtpMailer }] = await Promise.all(${JSON.stringify(modules)}.map((name) => import(name)));
      for (const SMTP_URL of ${JSON.stringify(urls)}) {
        const mailer = await smtpMailer(readSettings({ ...${JSON.stringify(mailEnv(""))}, SMTP_URL }));
        await mailer.send(${JSON.stringify(MESSAGE)}, "${ADDRESS}").then(() => console.log("sent"), ({ message }) => console.log(message));
      }`;
    const child = spawnNode(["--input-type=module", "-e", script], { env: { NODE_EXTRA_CA_CERTS: file } });
    const { stdout, stderr } = await child.done;
    expect(stderr).toBe("");
    const wrongHost = expect.stringMatching(/does not match certificate's altnames/);
    expect(stdout.trim().split("\n")).toEqual([wrongHost, wrongHost, "sent", "sent"]);
    for (const { received } of servers) expect(received.map(({ secure }) => secure)).toEqual([true]);
  });

  test("with requireTLS sends nothing to a server without TLS", async () => {
    const mailServer = await openMailServer();
    expect((await send(`${mailServer.url}?requireTLS=true`))?.message).toMatch(/TLS/);
    expect(mailServer.rcptCount).toBe(0);
  });
});

test.each([
  ["sends no greeting", () => {}],
  [
    "keeps sending continuation lines",
    (socket: Socket) => {
      socket.write("220 hello\r\n");
      const timer = setInterval(() => socket.write("250-still here\r\n"), 20);
      socket.once("close", () => clearInterval(timer));
    },
  ],
])("an attempt ends after SMTP_TIMEOUT_SECONDS if the mail server %s", async (_, serve) => {
  const rejected = await send(await openScriptedSmtpServer(serve), 0.2);
  const message = expect.stringMatching(/timeout|never received|abort/i);
  expect(rejected).toMatchObject({ isFinal: false, message });
});

test.each([
  ["a line", "x"],
  ["a greeting", "220-hello\r\n"],
])("an attempt ends early if the mail server sends %s without end", async (_, text) => {
  const url = await openScriptedSmtpServer((socket) => flood(socket, text));
  expect(await send(url)).toMatchObject({ isFinal: false, message: "Server response exceeds maximum allowed size" });
});

test("an answer of the mail server may have 64 kB, and ends the attempt if it has more", async () => {
  const sendToServer = async (kilobytes: number) =>
    send(
      await openScriptedSmtpServer((socket) => {
        const answer = `${`550-${"x".repeat(994)}\r\n`.repeat(kilobytes)}550 no such mailbox\r\n`;
        socket.write("220 hello\r\n");
        socket.on("data", (line) => socket.write(/^RCPT/.test(String(line)) ? answer : "250 fine\r\n"));
      }),
    );
  expect(await sendToServer(64)).toMatchObject({ isFinal: true, message: expect.stringContaining("550") });
  expect(await sendToServer(66)).toMatchObject({
    isFinal: false,
    message: "Server response exceeds maximum allowed size",
  });
});
