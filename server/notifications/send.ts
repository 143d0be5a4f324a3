import type { Services } from "../context.js";
import type { Log } from "../log.js";
import { open } from "../secrets.js";
import { compose, maskEmail } from "./compose.js";
import type { Mailer } from "./mailer.js";

/**
 * Sends the email about a form. Resolves to false if there is no recipient: the form or its address is gone. Rejects with
 * MailRejected if the message was not accepted.
 */
export type Send = (formId: string) => Promise<boolean>;

export function makeSender(services: Services, mailer: Mailer, log: Log): Send {
  const { from, formUrlTemplate } = mailer;
  return async (formId) => {
    const found = await readNotice(services, formId);
    if (!found) {
      log.info({ formId }, "notification dropped: the form or its address no longer exists");
      return false;
    }
    await mailer.send(compose({ ...found, from, formUrlTemplate }), found.to);
    log.info({ formId, to: maskEmail(found.to) }, "notification sent");
    return true;
  };
}

async function readNotice({ db, keyring }: Services, formId: string) {
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
  return { ...stay, formId, to: open(keyring.email, guestEmail, formId) };
}
