import type { Services } from "../../server/access/context.js";
import { createCaller } from "../../server/caller.js";
import { smtpMailer } from "../../server/emails/mailer.js";
import { afterFile } from "../support/after-file.js";
import { makeForm, makeKey, makeListing, makeUser } from "../support/factories.js";
import { openServicesWithMail, startMailServer } from "../support/mail-server.js";
import { emailQueue } from "../support/outbox-queue.js";
import { guestAddress } from "./console-page.js";

const LONG_WORD = "Guesthouse".repeat(5);
const ENDED = "next_attempt_at = NULL, ended_at = now(), attempts = 3, duration_ms = 812";

/** Has everything that pages show: all statuses, states of emails, deliveries and keys, and long names. */
export async function prepareConsoleData(services: Services) {
  const operator = createCaller(services, { kind: "operator", name: "Grace Operator" });
  const sql = (text: string, ...values: unknown[]) => services.db.pool.query(text, values);
  const owner = await makeUser(services, { email: `${"long".repeat(14)}@people.test`, name: LONG_WORD });
  const reader = await makeUser(services, { name: "Rita Reader" });
  const listing = await makeListing(services, owner.id, {
    title: `${LONG_WORD} ${LONG_WORD}`,
    timezone: "Pacific/Auckland",
    district: "Kreuzberg",
    maxPeopleInListing: 4,
    allowPets: true,
  });
  const inactive = await makeListing(services, owner.id, { active: false });
  await operator.members.set({ listingId: listing.id, userId: reader.id, role: "READER" });
  const url = `https://hooks.example.com/${"long-path/".repeat(12)}`;
  const endpoint = await operator.webhooks.create({ userId: owner.id, url, listingIds: [listing.id] });
  const disabled = await operator.webhooks.create({ url: "https://gone.example.com/hook", events: ["form.created"] });
  await operator.webhooks.disable({ id: disabled.id });

  const mailServer = await startMailServer();
  afterFile(() => mailServer.close());
  const { settings } = await openServicesWithMail(services, mailServer.url);
  const queue = emailQueue(services, "worker", await smtpMailer(settings));
  const invite = async () => {
    const guestEmail = guestAddress();
    return { guestEmail, ...(await makeForm(services, owner.id, listing.id, { guestEmail })) };
  };
  const send = async () => {
    const row = await queue.claim();
    if (!row) throw new Error("no email is due");
    await queue.attempt(row);
  };
  const failed = await invite();
  mailServer.rcptErrors.push({
    code: 550,
    text: `5.1.1 <${failed.guestEmail}>: no such user; see https://mail.test/${LONG_WORD}`,
  });
  await send();
  const retrying = await invite();
  mailServer.rcptErrors.push({ code: 451, text: `4.7.1 <${retrying.guestEmail}>: try again later` });
  await send();
  // Not due before the next ones.
  await sql("UPDATE emails SET next_attempt_at = now() + interval '1 hour' WHERE state = 'retrying'");
  const sent = await invite();
  await send();
  const expired = await invite();
  await operator.forms.setStatus({ id: expired.id, status: "COMPLETED" });
  await send();
  const running = await invite();
  await queue.claim();
  const waiting = await invite();
  const statuses = ["COMPLETED", "ACCEPTED", "REJECTED", "VALIDATED", "INVALIDATED", "CHECKED_OUT", "ON_HOLD"];
  for (const status of statuses) {
    const { id } = await makeForm(services, owner.id, listing.id);
    await operator.forms.setStatus({ id, status, force: true });
  }

  const body = JSON.stringify({ error: LONG_WORD.repeat(4) });
  const failure = "response_status = 503, last_error = 'answered 503'";
  const setDelivery = (remainder: number, values: string, ...parameters: unknown[]) =>
    sql(
      `UPDATE webhook_deliveries SET ${values} WHERE endpoint_id = '${endpoint.id}' AND id % 6 = ${remainder}`,
      ...parameters,
    );
  await setDelivery(0, `state = 'sent', ${ENDED}, response_status = 204`);
  await setDelivery(1, `state = 'failed', ${ENDED}, ${failure}, response_body = $1`, body);
  await setDelivery(2, `state = 'retrying', attempts = 2, ${failure}`);
  await setDelivery(3, `state = 'expired', ${ENDED}, ${failure}`);
  await setDelivery(4, `state = 'out_of_scope', ${ENDED}`);
  await sql("UPDATE webhook_endpoints SET failing_since = now() WHERE id = $1", endpoint.id);

  const active = await makeKey(services, owner.id, { label: LONG_WORD });
  await sql("UPDATE api_keys SET last_used_at = now() WHERE id = $1", active.id);
  const past = await makeKey(services, owner.id, { expiresAt: "2055-01-01T00:00:00Z" });
  await sql("UPDATE api_keys SET expires_at = now() - interval '1 day' WHERE id = $1", past.id);
  await operator.keys.revoke({ id: (await makeKey(services, owner.id, { mode: "READ_ONLY" })).id });
  await operator.keys.rotate({ id: (await makeKey(services, owner.id)).id });
  const [entry] = await operator.audit.trail({ subjectId: failed.id, limit: 1 });
  return {
    owner,
    listing,
    inactive,
    endpoint,
    disabled,
    forms: { failed, retrying, sent, expired, running, waiting },
    correlationId: entry?.correlationId ?? "",
  };
}
