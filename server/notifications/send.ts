import type { Services } from "../context.js";
import type { Log } from "../log.js";
import { open } from "../secrets.js";
import { compose, maskEmail, type Notice } from "./compose.js";
import { NEEDS_NO_INVITATION } from "./expiry.js";
import type { Mailer } from "./mailer.js";

/** `expired`: the stay is over, or the form past SENT. `no recipient`: the form or its address is gone. */
export type Outcome = "sent" | "expired" | "no recipient";

/** Sends the email about a form, unless it is too late. Rejects with MailRejected if the message was not accepted. */
export type Send = (formId: string) => Promise<Outcome>;

export function makeSender(services: Services, mailer: Mailer, log: Log): Send {
  const { from, formUrlTemplate } = mailer;
  return async (formId) => {
    const stored = await readForm(services, formId);
    if (!stored?.guestEmail) {
      log.info({ formId }, "notification dropped: the form or its address no longer exists");
      return "no recipient";
    }
    const { guestEmail, isExpired, ...form } = stored;
    if (isExpired) {
      log.info({ formId }, "notification expired: the stay is over or the form is past SENT");
      return "expired";
    }
    const to = open(services.keyring.email, guestEmail, formId);
    await mailer.send(compose({ ...form, formId, to, from, formUrlTemplate }), to);
    log.info({ formId, to: maskEmail(to) }, "notification sent");
    return "sent";
  };
}

const READ = `
  SELECT f.public_id AS "publicId", f.guest_email AS "guestEmail", f.check_in_date AS "checkInDate",
    f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", ${NEEDS_NO_INVITATION} AS "isExpired",
    json_build_object('title', l.title, 'address', l.address, 'city', l.city, 'country', l.country,
      'timezone', l.timezone) AS listing
  FROM forms f JOIN listings l ON l.id = f.listing_id
  WHERE f.id = $1::uuid`;

type StoredForm = Pick<Notice, "publicId" | "checkInDate" | "checkOutDate" | "numberOfGuests" | "listing"> & {
  guestEmail: Uint8Array | null;
  isExpired: boolean;
};

async function readForm({ db }: Services, formId: string): Promise<StoredForm | undefined> {
  const [form] = await db.query<StoredForm>("form-to-notify", READ, [formId]);
  return form;
}
