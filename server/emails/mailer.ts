import type { Settings } from "../config.js";
import { describeConnectionFailure } from "../connection-failures.js";
import { SendingFailed } from "../outbox/attempt.js";
import { toAnswer } from "./masking.js";
import type { Message } from "./sender.js";

export interface Mailer {
  /** The message is printed instead of sent. */
  isPrinter?: true;
  /** Returns the mail server's answer, if any, without the address. Rejects with MailRejected if the message was not accepted. */
  send(message: Message, to: string): Promise<string | null>;
}

/**
 * The message was not accepted. Final: the address or message was rejected permanently (a 5yz reply, RFC 5321). The reason never
 * contains the address.
 */
export class MailRejected extends SendingFailed {}

/** The mail server of SMTP_URL; undefined if that is not set. */
export async function smtpMailer(settings: Settings): Promise<Mailer | undefined> {
  const { SMTP_URL, SMTP_FROM, FORM_URL_TEMPLATE, SMTP_TIMEOUT_SECONDS } = settings;
  if (!SMTP_URL || !SMTP_FROM || !FORM_URL_TEMPLATE) return undefined;
  const transport = await openTransport(SMTP_URL, settings);
  return {
    async send(message, to) {
      const signal = AbortSignal.timeout(SMTP_TIMEOUT_SECONDS * 1000 * MESSAGE_TIMEOUTS);
      try {
        const { response } = await transport.sendMail({ ...message, signal });
        return toAnswer(response, to, FORM_URL_TEMPLATE);
      } catch (error) {
        // A new error without `cause`: the original contains the address, and the reason is logged and stored.
        const reason = describeConnectionFailure(error, "SMTP_URL");
        throw new MailRejected(toAnswer(reason, to, FORM_URL_TEMPLATE), isFinal(error));
      }
    },
  };
}

/** Loads nodemailer, and opens an SMTP transport with SMTP_TIMEOUT_SECONDS as each of its timeouts. */
export async function openTransport(url: string, { SMTP_TIMEOUT_SECONDS }: Pick<Settings, "SMTP_TIMEOUT_SECONDS">) {
  const { createTransport } = await import("nodemailer");
  const timeout = SMTP_TIMEOUT_SECONDS * 1000;
  return createTransport({
    url,
    dnsTimeout: timeout,
    connectionTimeout: timeout,
    greetingTimeout: timeout,
    socketTimeout: timeout,
    maxResponseSize: MAX_ANSWER_BYTES,
  });
}

/** Of all lines of an answer. RFC 5321 has lines of at most 512 bytes. */
const MAX_ANSWER_BYTES = 65_536;

/** Deadline of a message, in timeouts: a server that keeps sending single lines never hits the idle timeout. */
const MESSAGE_TIMEOUTS = 10;

/** Whether the rejection is permanent. A rejected login or sender is retried: the operator can fix it. */
function isFinal(error: unknown): boolean {
  const { command, responseCode = 0 } = error as { command?: string; responseCode?: number };
  return (command === "RCPT TO" || command === "DATA") && responseCode >= 500 && responseCode < 600;
}
