import { createTransport, type SendMailOptions, type Transporter } from "nodemailer";
import type { Services } from "../context.js";
import { open } from "../secrets.js";
import { compose, maskEmail, withoutEmail } from "./compose.js";
import type { WorkerLog } from "./worker.js";

/** The receiver has refused the address or the message for good (RFC 5321, a 5yz reply). */
export class FinalRefusal extends Error {}

/**
 * Sends a form's notification, or logs it where no mail server is set; does nothing where the form or its address is
 * gone. Rejects where the message was not taken, with a FinalRefusal where trying again would be of no use; the
 * reason does not tell the address.
 */
export type Send = (formId: string) => Promise<void>;

export function makeSender(services: Services, log: WorkerLog): Send {
  const { settings } = services;
  const transport = settings.SMTP_URL ? openTransport(settings.SMTP_URL, settings) : undefined;
  return async (formId) => {
    const found = await readNotice(services, formId);
    if (!found) {
      log.info({ formId }, "nothing to notify: the form or its address is gone");
      return;
    }
    const message = compose(found);
    const to = maskEmail(found.to);
    if (!transport) {
      log.info(
        { formId, to, subject: message.subject, text: message.text },
        "notification (no SMTP_URL is set)",
      );
      return;
    }
    await deliver(transport, message, settings.SMTP_TIMEOUT_SECONDS, found.to);
    log.info({ formId, to }, "notification sent");
  };
}

function openTransport(url: string, { SMTP_TIMEOUT_SECONDS }: Services["settings"]): Transporter {
  const timeout = SMTP_TIMEOUT_SECONDS * 1000;
  return createTransport({
    url,
    dnsTimeout: timeout,
    connectionTimeout: timeout,
    greetingTimeout: timeout,
    socketTimeout: timeout,
  });
}

/** How many answers' time a whole message may take: a server that says a little now and then is idle at no time. */
const ANSWERS = 10;

const REASON_CHARACTERS = 500;

async function deliver(transport: Transporter, message: SendMailOptions, timeoutSeconds: number, to: string) {
  const signal = AbortSignal.timeout(timeoutSeconds * 1000 * ANSWERS);
  try {
    await transport.sendMail({ ...message, signal } as SendMailOptions);
  } catch (error) {
    // It is logged, and kept with the job: a new error, for the first one carries the address in several places.
    const said = withoutEmail(error instanceof Error ? error.message : String(error), to);
    const reason = said.replace(/\s+/g, " ").slice(0, REASON_CHARACTERS);
    throw isFinal(error) ? new FinalRefusal(reason) : new Error(reason);
  }
}

/** Whether it is this message that was refused for good: a refused login or sender is the operator's to mend. */
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
