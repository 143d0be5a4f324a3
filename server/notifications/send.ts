import { createTransport, type SendMailOptions, type Transporter } from "nodemailer";
import type { Services } from "../context.js";
import type { Log } from "../log.js";
import { open } from "../secrets.js";
import { compose, maskEmail, withoutEmail } from "./compose.js";

/** The receiver refused the address or the message for good (a 5yz reply, RFC 5321). */
export class FinalRefusal extends Error {}

/**
 * Sends the message about a form, or logs it if no mail server is set. Resolves to whether there was a recipient: the
 * form or its address may be gone. Rejects if the message was not accepted, with a FinalRefusal if retrying is of no
 * use; the reason never contains the address.
 */
export type Send = (formId: string) => Promise<boolean>;

export function makeSender(services: Services, log: Log): Send {
  const { settings } = services;
  const transport = settings.SMTP_URL ? openTransport(settings.SMTP_URL, settings) : undefined;
  return async (formId) => {
    const found = await readNotice(services, formId);
    if (!found) {
      log.info({ formId }, "nothing to notify: the form or its address is gone");
      return false;
    }
    const message = compose(found);
    const to = maskEmail(found.to);
    if (transport) {
      await deliver(transport, message, settings.SMTP_TIMEOUT_SECONDS, found.to);
      log.info({ formId, to }, "notification sent");
    } else {
      const { subject, text } = message;
      log.info({ formId, to, subject, text }, "notification (no SMTP_URL is set)");
    }
    return true;
  };
}

export function openTransport(
  url: string,
  { SMTP_TIMEOUT_SECONDS }: Pick<Services["settings"], "SMTP_TIMEOUT_SECONDS">,
): Transporter {
  const timeout = SMTP_TIMEOUT_SECONDS * 1000;
  return createTransport({
    url,
    dnsTimeout: timeout,
    connectionTimeout: timeout,
    greetingTimeout: timeout,
    socketTimeout: timeout,
  });
}

/** Limit of a whole message, in timeouts: a server that keeps sending single lines never hits the idle timeout. */
const MESSAGE_TIMEOUTS = 10;

const MAX_REASON_CHARACTERS = 500;

async function deliver(transport: Transporter, message: SendMailOptions, timeoutSeconds: number, to: string) {
  const signal = AbortSignal.timeout(timeoutSeconds * 1000 * MESSAGE_TIMEOUTS);
  try {
    await transport.sendMail({ ...message, signal });
  } catch (error) {
    // A new error: several properties of the original contain the address, and the reason is logged and stored.
    // Postgres refuses NUL.
    const said = withoutEmail(error instanceof Error ? error.message : String(error), to);
    const reason = said.replace(/[\s\p{Cc}]+/gu, " ").slice(0, MAX_REASON_CHARACTERS);
    throw isFinal(error) ? new FinalRefusal(reason) : new Error(reason);
  }
}

/** Whether this message was refused for good. A refused login or sender is for the operator to fix, so it is retried. */
function isFinal(error: unknown): boolean {
  const { command, responseCode = 0 } = error as { command?: string; responseCode?: number };
  return (command === "RCPT TO" || command === "DATA") && responseCode >= 500 && responseCode < 600;
}

async function readNotice({ db, keyring, settings }: Services, formId: string) {
  const form = await db.prisma.form.findUnique({
    where: { id: formId },
    select: {
      publicId: true,
      guestEmail: true,
      checkInDate: true,
      checkOutDate: true,
      numberOfGuests: true,
      listing: { select: { title: true, address: true, city: true, country: true, timezone: true } },
    },
  });
  if (!form?.guestEmail) return undefined;
  const { guestEmail, ...stay } = form;
  return {
    ...stay,
    formId,
    to: open(keyring.email, guestEmail, formId),
    from: settings.SMTP_FROM,
    formUrlTemplate: settings.FORM_URL_TEMPLATE,
  };
}
