import { beforeAll, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import type { Db } from "../../server/db.js";
import { redactEmail } from "../../server/notifications/compose.js";
import { openQueue } from "../../server/notifications/queue.js";
import { startWorker } from "../../server/worker.js";
import {
  asOperator,
  asUser,
  fixedStay,
  makeListing,
  openTestServices,
  TEST_SECRET,
  withSecrets,
} from "../factories.js";
import { type ListingOwner, makeListingOwner } from "./listing-owner.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "./mail-server.js";

const ADDRESS = "Unmistakable.Guest@mail.example.com";

/** A worker that has only begun to listen finds a job at its next look, two seconds later. */
const eventually = <Result>(look: () => Result) => expect.poll(look, { interval: 20 });

let services: Services;
let owner: ListingOwner;

beforeAll(async () => {
  services = await openTestServices();
  owner = await makeListingOwner(services);
});

const waiting = () => asOperator(services).notifications.list();

describe("the job", () => {
  test("is enqueued for a form that a create with an address has made, and for nothing else", async () => {
    const body = fixedStay(owner.listingId, { guestEmail: ADDRESS });
    const { form } = await owner.create(body);
    await owner.create(body, "again");
    const { form: bare } = await owner.create(fixedStay(owner.listingId));
    await owner.create(fixedStay(owner.listingId, { guestEmail: null }));
    const { forms } = asUser(services, owner.userId);
    await forms.update({ id: bare.id, ...body });
    await forms.update({ id: form.id, ...body, guestEmail: "other@example.com" });
    expect(await waiting()).toEqual([
      {
        id: expect.stringMatching(/^\d+$/),
        formId: form.id,
        state: "waiting",
        attempts: 0,
        lastError: null,
        runAt: expect.stringMatching(/^\d{4}-.*Z$/),
      },
    ]);
    const { rows } = await services.db.pool.query("SELECT kind, form_id FROM notifications");
    expect(rows).toEqual([{ kind: "form.created", form_id: form.id }]);
    await services.db.pool.query("DELETE FROM notifications");
  });
});

test("unsent notifications are found by their index, however many were sent", async () => {
  const statements: string[] = [];
  const recorded: Db = {
    ...services.db,
    query(name, text, values) {
      statements.push(text);
      return services.db.query(name, text, values);
    },
  };
  const queue = openQueue(recorded, "a worker");
  const { notifications } = asOperator({ ...services, db: recorded });
  await Promise.all([queue.claim(), queue.releaseStale(), notifications.list(), notifications.count()]);
  expect(statements).toHaveLength(4);
  await services.db.pool.query(
    `WITH sent AS (
       INSERT INTO forms (public_id, listing_id, fingerprint)
       SELECT 'sent-' || n, $1, '\\x00' FROM generate_series(1, 5000) n RETURNING id)
     INSERT INTO notifications (kind, form_id, state, next_attempt_at)
     SELECT 'form.created', id, 'sent', NULL FROM sent`,
    [owner.listingId],
  );
  await services.db.pool.query("ANALYZE notifications");
  const client = await services.db.pool.connect();
  try {
    for (const text of statements) {
      await client.query(`PREPARE examined AS ${text}`);
      const values = [...new Set(text.match(/\$\d+/g))].map(() => "NULL").join(", ");
      const { rows } = await client.query(`EXPLAIN EXECUTE examined${values && `(${values})`}`);
      await client.query("DEALLOCATE examined");
      const plan = JSON.stringify(rows);
      expect(plan).toContain("notifications_unsent_idx");
      expect(plan).not.toContain("Seq Scan");
    }
  } finally {
    client.release();
    await services.db.pool.query("DELETE FROM notifications");
  }
});

describe("the message", () => {
  test("reaches the guest, with the stay in the listing's time zone", async () => {
    const office = await openMailServer();
    const mailing = await openServicesWithMail(services, office.url, {
      SMTP_FROM: "Hosts of Berlin <hosts@example.com>",
      FORM_URL_TEMPLATE: "https://forms.example.org/g/{publicId}?lang=en&from=mail",
    });
    const lines = await startTestWorker(mailing);
    const listing = await makeListing(services, owner.userId, {
      title: "Čajovna „U řeky“ 🏡, Loft & more",
      address: "Kampa 5",
      city: "Praha",
      country: "Česko",
      timezone: "Pacific/Auckland",
    });
    const { form } = await owner.create(fixedStay(listing.id, { guestEmail: ADDRESS, numberOfGuests: 11 }));
    await eventually(() => office.received.length).toBe(1);
    const [{ from, to, mail } = { from: "", to: [], mail: null }] = office.received;
    expect(from).toBe("hosts@example.com");
    expect(to).toEqual([ADDRESS]);
    expect(mail).toMatchObject({
      messageId: `<form-${form.id}@guest-forms>`,
      from: { name: "Hosts of Berlin", address: "hosts@example.com" },
      to: [{ name: "", address: ADDRESS }],
      subject: `Please register for your stay at ${listing.title}`,
    });
    expect(mail?.headers).toContainEqual(
      expect.objectContaining({ key: "auto-submitted", value: "auto-generated" }),
    );
    const text = mail?.text ?? "";
    // 13:00 and 09:00 in UTC; July is winter there, at twelve hours ahead.
    expect(text).toMatch(/Check-in: +Friday,? 2 July 2027 at 01:00 \(Pacific\/Auckland\)/);
    expect(text).toMatch(/Check-out: +Thursday,? 8 July 2027 at 21:00 \(Pacific\/Auckland\)/);
    expect(text).toMatch(/Guests: +11/);
    expect(text).toContain(listing.title);
    expect(text).toContain("Kampa 5, Praha, Česko");
    expect(text).toContain(`https://forms.example.org/g/${form.publicId}?lang=en&from=mail`);
    const html = mail?.html ?? "";
    expect(html).toMatch(/Check-in<\/th><td>Friday,? 2 July 2027 at 01:00 \(Pacific\/Auckland\)</);
    expect(html).toContain("Čajovna „U řeky“ 🏡, Loft &amp; more");
    expect(html).toContain(`<a href="https://forms.example.org/g/${form.publicId}?lang=en&amp;from=mail">`);
    await eventually(waiting).toEqual([]);
    expect(lines).toContainEqual({
      level: "info",
      facts: { formId: form.id, to: "U***@m***.com" },
      message: "notification sent",
    });
    expect(JSON.stringify(lines).toLowerCase()).not.toContain("unmistakable");
  });

  test("shows the host's words in HTML as they are, whatever they are", async () => {
    const office = await openMailServer();
    await startTestWorker(await openServicesWithMail(services, office.url));
    const words = `<script>alert('1')</script> & "<b onclick=x>" &lt;`;
    const listing = await makeListing(services, owner.userId, {
      title: words,
      address: words,
      city: words,
      country: words,
    });
    await owner.create(fixedStay(listing.id, { guestEmail: ADDRESS }));
    await eventually(() => office.received.length).toBe(1);
    const { html = "", text = "", subject } = office.received[0]?.mail ?? {};
    const escaped =
      "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;&lt;b onclick=x&gt;&quot; &amp;lt;";
    // In the title, the invitation, and as address, city and country.
    expect(html.split(escaped)).toHaveLength(1 + 5);
    expect(html).not.toMatch(/<script|<b\b/);
    expect(text).toContain(words);
    expect(subject).toBe(`Please register for your stay at ${words}`);
  });

  test("goes to the address as an update has since left it", async () => {
    const office = await openMailServer();
    const { form } = await owner.create(
      fixedStay(owner.listingId, { guestEmail: ADDRESS, numberOfGuests: 12 }),
    );
    const guestEmail = "corrected@example.com";
    await asUser(services, owner.userId).forms.update({
      id: form.id,
      ...fixedStay(owner.listingId, { guestEmail }),
    });
    await startTestWorker(await openServicesWithMail(services, office.url));
    await eventually(() => office.received.map(({ to }) => to)).toEqual([[guestEmail]]);
  });

  test("is sent after the secrets were rotated", async () => {
    const office = await openMailServer();
    await owner.create(fixedStay(owner.listingId, { guestEmail: ADDRESS, numberOfGuests: 13 }));
    await startTestWorker(
      withSecrets(await openServicesWithMail(services, office.url), "n".repeat(32), TEST_SECRET),
    );
    await eventually(() => office.received.map(({ to }) => to)).toEqual([[ADDRESS]]);
  });

  test("is not sent where the form is gone", async () => {
    const { form } = await owner.create(
      fixedStay(owner.listingId, { guestEmail: ADDRESS, numberOfGuests: 14 }),
    );
    const { form: other } = await owner.create(
      fixedStay(owner.listingId, { guestEmail: ADDRESS, numberOfGuests: 15 }),
    );
    await services.db.pool.query("DELETE FROM forms WHERE id = $1", [form.id]);
    const office = await openMailServer();
    await startTestWorker(await openServicesWithMail(services, office.url));
    await eventually(waiting).toEqual([]);
    expect(office.received.map(({ mail }) => mail.messageId)).toEqual([`<form-${other.id}@guest-forms>`]);
  });

  test("is not sent where the address is gone", async () => {
    const { form } = await owner.create(
      fixedStay(owner.listingId, { guestEmail: ADDRESS, numberOfGuests: 18 }),
    );
    await services.db.pool.query("UPDATE forms SET guest_email = NULL WHERE id = $1", [form.id]);
    const office = await openMailServer();
    const lines = await startTestWorker(await openServicesWithMail(services, office.url));
    await eventually(() => lines).toContainEqual({
      level: "info",
      facts: { formId: form.id },
      message: "nothing to notify: the form or its address is gone",
    });
    await eventually(waiting).toEqual([]);
    expect(office.received).toEqual([]);
  });

  test("waits while no worker has a mail server, and is sent by the first that has one", async () => {
    const { form } = await owner.create(
      fixedStay(owner.listingId, { guestEmail: ADDRESS, numberOfGuests: 19 }),
    );
    // What a worker claims at its start, it finishes before it has stopped.
    await (await startWorker(services, { info() {}, warn() {}, error() {} })).stop();
    expect(await waiting()).toEqual([
      expect.objectContaining({ formId: form.id, state: "waiting", attempts: 0 }),
    ]);
    const office = await openMailServer();
    await startTestWorker(await openServicesWithMail(services, office.url));
    await eventually(() => office.received.length).toBe(1);
    expect(office.received[0]?.mail.messageId).toBe(`<form-${form.id}@guest-forms>`);
    await eventually(waiting).toEqual([]);
  });
});

describe("a message that the mail server refuses", () => {
  test.each([
    [`550 <${ADDRESS}>: unknown`, "550 <U***@m***.com>: unknown"],
    [`451 <SRS0=x=${ADDRESS.toLowerCase()}> busy`, "451 <S***@m***.com> busy"],
    ["550 No user UNMISTAKABLE.GUEST here", "550 No user *** here"],
    ["554 mail.example.com: relay denied", "554 ***: relay denied"],
    ["connect ECONNREFUSED 127.0.0.1:25", "connect ECONNREFUSED 127.0.0.1:25"],
  ])("is reported without the address: %s", (said, shown) => {
    expect(redactEmail(said, ADDRESS)).toBe(shown);
  });

  test("is reported without it whatever characters it has", () => {
    expect(redactEmail("550 (no a+$&* here)", "a+$&*@x.de")).toBe("550 (no *** here)");
  });

  test("is tried again later, with the same Message-ID, and shows neither in log nor table who it is to", async () => {
    const office = await openMailServer();
    const said = `<${ADDRESS}> (${ADDRESS.toLowerCase()}): mailbox busy`;
    office.rcptErrors.push({ code: 451, text: said });
    const lines = await startTestWorker(await openServicesWithMail(services, office.url));
    const { form } = await owner.create(
      fixedStay(owner.listingId, { guestEmail: ADDRESS, numberOfGuests: 16 }),
    );
    const later = expect.objectContaining({ formId: form.id, state: "retrying", attempts: 1 });
    await eventually(waiting).toEqual([later]);
    const [job] = await waiting();
    expect(job?.lastError).toContain("mailbox busy");
    expect(Date.parse(job?.runAt ?? "")).toBeGreaterThan(Date.now());
    expect(office.received).toEqual([]);
    const { rows } = await services.db.pool.query("SELECT n::text AS row FROM notifications n");
    for (const text of [JSON.stringify(rows), JSON.stringify(lines), JSON.stringify(job)]) {
      expect(text.toLowerCase()).not.toMatch(/unmistakable|mail\.example/);
    }
    await services.db.pool.query("UPDATE notifications SET next_attempt_at = now() WHERE id = $1", [job?.id]);
    await eventually(() => office.received.length).toBe(1);
    expect(office.received[0]?.mail.messageId).toBe(`<form-${form.id}@guest-forms>`);
    await eventually(waiting).toEqual([]);
  });

  test("stays visible once it was given up", async () => {
    const { form } = await owner.create(
      fixedStay(owner.listingId, { guestEmail: ADDRESS, numberOfGuests: 17 }),
    );
    await services.db.pool.query(
      "UPDATE notifications SET state = 'failed', attempts = 25, last_error = 'refused' WHERE form_id = $1",
      [form.id],
    );
    await startTestWorker(services);
    expect(await waiting()).toEqual([
      expect.objectContaining({ formId: form.id, state: "failed", attempts: 25, lastError: "refused" }),
    ]);
    await services.db.pool.query("DELETE FROM notifications");
  });
});
