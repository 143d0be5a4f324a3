import { createServer, type Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import PostalMime, { type Email } from "postal-mime";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";
import { onTestFinished } from "vitest";
import type { Services } from "../../server/access/context.js";
import { startWorker } from "../../server/worker.js";
import { LONG_DATABASE_TIMEOUTS } from "./database.js";
import { openTestServices, TEST_SECRET } from "./factories.js";
import { listenLocally } from "./network.js";

export interface ReceivedMessage {
  from: string;
  to: string[];
  /** Whether the connection was encrypted. */
  secure: boolean;
  mail: Email;
  /** The message as it was sent. */
  bytes: Buffer;
  /** `performance.now()` of its arrival. */
  at: number;
}

interface SmtpError {
  code: number;
  text: string;
}

export type MailServer = Awaited<ReturnType<typeof startMailServer>>;

export const recipientsOf = ({ received }: MailServer) => received.flatMap(({ to }) => to);

const toError = ({ code, text }: SmtpError) => Object.assign(new Error(text), { responseCode: code });

/** Starts a mail server that is closed after the test. Unencrypted by default. */
export async function openMailServer(options: SMTPServerOptions = {}): Promise<MailServer> {
  const mailServer = await startMailServer(options);
  onTestFinished(() => mailServer.close());
  return mailServer;
}

/** Starts a mail server that the caller must close. */
export async function startMailServer(options: SMTPServerOptions = {}) {
  const received: ReceivedMessage[] = [];
  const rcptErrors: SmtpError[] = [];
  const dataErrors: SmtpError[] = [];
  const answers: string[] = [];
  let rcptCount = 0;
  let rcptGate = Promise.resolve();
  let release = () => {};
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: options.key ? [] : ["STARTTLS"],
    logger: false,
    // Do not wait for connections that are still held when the test ends.
    closeTimeout: 100,
    onRcptTo: async (_, __, done) => {
      rcptCount += 1;
      await rcptGate;
      const smtpError = rcptErrors.shift();
      done(smtpError && toError(smtpError));
    },
    onData: async (stream, { envelope: { mailFrom, rcptTo }, secure }, done) => {
      const bytes = await buffer(stream).catch(() => undefined);
      // The client was killed while it sent.
      if (!bytes) return;
      const smtpError = dataErrors.shift();
      if (smtpError) return done(toError(smtpError));
      const from = mailFrom ? mailFrom.address : "";
      const to = rcptTo.map(({ address }) => address);
      received.push({ from, to, secure, at: performance.now(), mail: await PostalMime.parse(bytes), bytes });
      return done(null, answers.shift());
    },
    ...options,
  });
  // Errors of a client that rejects the certificate or is killed are expected.
  server.on("error", () => {});
  const port = await listenLocally(server.server);
  return {
    port,
    /** smtp:// URL. */
    url: `smtp://127.0.0.1:${port}`,
    received,
    /** Errors for the next RCPT commands, one each. Recipients are accepted when none is left. */
    rcptErrors,
    /** The same for the next DATA commands. */
    dataErrors,
    /** Texts of the next answers to messages that are accepted. */
    answers,
    /** Number of RCPT commands received. */
    get rcptCount() {
      return rcptCount;
    },
    /** Delays replies to RCPT until `releaseRcpt` or the returned function is called. */
    holdRcpt() {
      const releaseEarlier = release;
      let open = () => {};
      rcptGate = new Promise((resolve) => {
        open = resolve;
      });
      release = () => {
        releaseEarlier();
        open();
      };
      return open;
    },
    releaseRcpt: () => release(),
    async close() {
      release();
      await new Promise<void>((resolve) => server.close(resolve));
    },
  };
}

/** Starts a server that handles its connections with `serve`. Returns its smtp:// URL. */
export async function openScriptedSmtpServer(serve: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).once("close", () => sockets.delete(socket));
    serve(socket);
  });
  const port = await listenLocally(server);
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `smtp://127.0.0.1:${port}`;
}

export interface WorkerLogLine {
  level: "info" | "warn" | "error";
  facts: Record<string, unknown>;
  message: string;
}

/** Starts a worker that is stopped after the test. Returns its log, which grows. */
export async function startTestWorker(services: Services): Promise<WorkerLogLine[]> {
  const lines: WorkerLogLine[] = [];
  const logAt = (level: WorkerLogLine["level"]) => (facts: object, message: string) =>
    void lines.push({ level, facts: { ...facts }, message });
  const log = { info: logAt("info"), warn: logAt("warn"), error: logAt("error") };
  const worker = await startWorker(services, log);
  onTestFinished(() => worker.stop());
  return lines;
}

/** Returns the environment of a command on the same database, with long timeouts. */
export const commandEnv = ({ db }: Services, overrides: Record<string, string> = {}) => ({
  DATABASE_URL: db.url,
  APP_SECRETS: TEST_SECRET,
  ...LONG_DATABASE_TIMEOUTS,
  ...overrides,
});

/** The Message-ID of the guest's email, with the settings of `mailEnv`. */
export const messageIdOf = (formId: string) => `<form-${formId}@example.com>`;

/** Returns the environment of a process that sends through this mail server. */
export const mailEnv = (SMTP_URL: string) => ({
  SMTP_URL,
  SMTP_FROM: "Guest forms <no-reply@example.com>",
  FORM_URL_TEMPLATE: "https://forms.example.com/{publicId}",
});

/** Opens the core again, as another process on the same database with a mail server. */
export const openServicesWithMail = (services: Services, smtpUrl: string, env: Record<string, string> = {}) =>
  openTestServices({ DATABASE_URL: services.db.url, ...mailEnv(smtpUrl), ...env });
