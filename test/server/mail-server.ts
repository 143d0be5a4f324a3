import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import PostalMime, { type Email } from "postal-mime";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";
import { onTestFinished } from "vitest";
import type { Services } from "../../server/context.js";
import { startWorker } from "../../server/worker.js";
import { openTestServices, TEST_SECRET } from "../factories.js";

export interface ReceivedMessage {
  from: string;
  to: string[];
  /** Whether it came encrypted. */
  secure: boolean;
  mail: Email;
}

export interface SmtpError {
  code: number;
  text: string;
}

export interface MailServer {
  port: number;
  /** smtp:// address. */
  url: string;
  received: ReceivedMessage[];
  /** Answers to RCPT, first to last, in place of taking the message; none left: it is taken. */
  rcptErrors: SmtpError[];
  /** The same after the message itself. */
  dataErrors: SmtpError[];
  /** How many messages have come as far as RCPT. */
  readonly rcptCount: number;
  /** From now on RCPT waits for `release`, or for the function that this gives, whichever is first. */
  holdRcpt(): () => void;
  releaseRcpt(): void;
}

const failure = ({ code, text }: SmtpError) => Object.assign(new Error(text), { responseCode: code });

/** A mail server of the test's own, closed after it; without encryption unless `options` say. */
export async function openMailServer(options: SMTPServerOptions = {}): Promise<MailServer> {
  const office = await startMailServer(options);
  onTestFinished(() => office.close());
  return office;
}

/** The same, closed by who starts it. */
export async function startMailServer(
  options: SMTPServerOptions = {},
): Promise<MailServer & { close(): Promise<void> }> {
  const office = { received: [], rcptErrors: [], dataErrors: [], rcptCount: 0 } as unknown as MailServer & {
    rcptCount: number;
  };
  let gate = Promise.resolve();
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: options.key ? [] : ["STARTTLS"],
    logger: false,
    // Held dialogues end with the test.
    closeTimeout: 100,
    onRcptTo: async (_, __, done) => {
      office.rcptCount += 1;
      await gate;
      const refusal = office.rcptErrors.shift();
      done(refusal && failure(refusal));
    },
    onData: (stream, { envelope, secure }, done) => {
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("end", async () => {
        const refusal = office.dataErrors.shift();
        if (refusal) return done(failure(refusal));
        const { mailFrom, rcptTo } = envelope;
        office.received.push({
          from: mailFrom ? mailFrom.address : "",
          to: rcptTo.map(({ address }) => address),
          secure,
          mail: await PostalMime.parse(Buffer.concat(chunks)),
        });
        return done();
      });
    },
    ...options,
  });
  // A client that refuses the certificate, or is killed, is no fault of the server's.
  server.on("error", () => {});
  server.listen(0, "127.0.0.1");
  await once(server.server, "listening");
  let release = () => {};
  const { port } = server.server.address() as AddressInfo;
  return Object.assign(office, {
    port,
    url: `smtp://127.0.0.1:${port}`,
    holdRcpt() {
      const before = release;
      let open = () => {};
      gate = new Promise((resolve) => {
        open = resolve;
      });
      release = () => {
        before();
        open();
      };
      return open;
    },
    releaseRcpt: () => release(),
    async close() {
      release();
      await new Promise<void>((resolve) => server.close(resolve));
    },
  });
}

/** A server that does with its connections whatever `serve` does; its address as smtp://. */
export async function openScriptedSmtpServer(serve: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).once("close", () => sockets.delete(socket));
    serve(socket);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export interface WorkerLogLine {
  level: "info" | "warn" | "error";
  facts: Record<string, unknown>;
  message: string;
}

/** A worker of the test's own, and what it logs. */
export async function startTestWorker(services: Services): Promise<WorkerLogLine[]> {
  const lines: WorkerLogLine[] = [];
  const at = (level: WorkerLogLine["level"]) => (facts: object, message: string) =>
    void lines.push({ level, facts: { ...facts }, message });
  const worker = await startWorker(services, { info: at("info"), warn: at("warn"), error: at("error") });
  onTestFinished(() => worker.stop());
  return lines;
}

/** The variables of a command on the same database, patient on a machine that runs many tests at once. */
export const commandEnv = ({ db }: Services, more: Record<string, string> = {}) => ({
  DATABASE_URL: db.url,
  APP_SECRETS: TEST_SECRET,
  DATABASE_CONNECT_TIMEOUT_MS: "10000",
  DATABASE_STATEMENT_TIMEOUT_MS: "10000",
  DATABASE_LOCK_TIMEOUT_MS: "9000",
  ...more,
});

/** The variables of a process that sends by this mail server. */
export const mailEnv = (SMTP_URL: string) => ({
  SMTP_URL,
  SMTP_FROM: "Guest forms <no-reply@example.com>",
  FORM_URL_TEMPLATE: "https://forms.example.com/{publicId}",
});

/** The core of one more process on the same database, with a mail server. */
export const openServicesWithMail = (services: Services, smtpUrl: string, env: Record<string, string> = {}) =>
  openTestServices({ DATABASE_URL: services.db.url, ...mailEnv(smtpUrl), ...env });
