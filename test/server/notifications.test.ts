import { beforeAll, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { redactEmail } from "../../server/notifications/compose.js";
import { INT32_MAX } from "../../server/values.js";
import { startWorker } from "../../server/worker.js";
import { asOperator, openTestServices, TEST_SECRET, withSecrets } from "../support/factories.js";
import { type ListingOwner, makeListingOwner } from "../support/listing-owner.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { fixedStay } from "../support/stays.js";

const ADDRESS = "Unmistakable.Guest@mail.example.com";

let services: Services;
let owner: ListingOwner;

beforeAll(async () => {
  services = await openTestServices();
  owner = await makeListingOwner(services);
});

/** Every stay has another number of guests, so that no create is a replay. */
let guests = 20;
const stayWithAddress = () => fixedStay(owner.listingId, { guestEmail: ADDRESS, numberOfGuests: ++guests });

const listUnsent = () => asOperator(services).notifications.list();

describe("a notification", () => {
  test("is enqueued for a new form with an address, and not for replays, forms without an address or updates", async () => {
    const body = fixedStay(owner.listingId, { guestEmail: ADDRESS });
    const { form } = await owner.create(body);
    await owner.create(body, "again");
    const { form: bare } = await owner.create(fixedStay(owner.listingId));
    await owner.create(fixedStay(owner.listingId, { guestEmail: null }));
    const { forms } = owner;
    await forms.update({ id: bare.id, ...body });
    await forms.update({ id: form.id, ...body, guestEmail: "other@example.com" });
    expect(await listUnsent()).toEqual([
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

describe("a create with an address enqueues one notification", () => {
  test.each([
    ["for 1 guest", { numberOfGuests: 1 }],
    ["for as many guests as can be stored", { numberOfGuests: INT32_MAX }],
    [
      "for a stay in the year 9999",
      { checkInDate: "9999-12-30T00:00:00Z", checkOutDate: "9999-12-31T00:00:00Z" },
    ],
  ])("%s", async (_, stay) => {
    const { form } = await owner.create(fixedStay(owner.listingId, { guestEmail: ADDRESS, ...stay }));
    expect((await listUnsent()).map(({ formId }) => formId)).toEqual([form.id]);
    await services.db.pool.query("DELETE FROM notifications");
  });
});

describe("the message", () => {
  test("is sent to the guest with the stay in the listing's time zone", async () => {
    const mailServer = await openMailServer();
    const mailServices = await openServicesWithMail(services, mailServer.url, {
      SMTP_FROM: "Hosts of Berlin <hosts@example.com>",
      FORM_URL_TEMPLATE: "https://forms.example.org/g/{publicId}?lang=en&from=mail",
    });
    const lines = await startTestWorker(mailServices);
    const listing = await owner.addListing({
      title: "Čajovna „U řeky“ 🏡, Loft & more",
      address: "Kampa 5",
      city: "Praha",
      country: "Česko",
      timezone: "Pacific/Auckland",
    });
    const { form } = await owner.create(fixedStay(listing.id, { guestEmail: ADDRESS, numberOfGuests: 11 }));
    await expect.poll(() => mailServer.received.length).toBe(1);
    const [{ from, to, mail } = { from: "", to: [], mail: null }] = mailServer.received;
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
    // 13:00 and 09:00 UTC. Auckland is 12 hours ahead in July.
    expect(text).toMatch(/Check-in: +Friday,? 2 July 2055 at 01:00 \(Pacific\/Auckland\)/);
    expect(text).toMatch(/Check-out: +Thursday,? 8 July 2055 at 21:00 \(Pacific\/Auckland\)/);
    expect(text).toMatch(/Guests: +11/);
    expect(text).toContain(listing.title);
    expect(text).toContain("Kampa 5, Praha, Česko");
    expect(text).toContain(`https://forms.example.org/g/${form.publicId}?lang=en&from=mail`);
    const html = mail?.html ?? "";
    expect(html).toMatch(/Check-in<\/th><td>Friday,? 2 July 2055 at 01:00 \(Pacific\/Auckland\)</);
    expect(html).toContain("Čajovna „U řeky“ 🏡, Loft &amp; more");
    expect(html).toContain(`<a href="https://forms.example.org/g/${form.publicId}?lang=en&amp;from=mail">`);
    await expect.poll(listUnsent).toEqual([]);
    expect(lines).toContainEqual({
      level: "info",
      facts: { formId: form.id, to: "U***@m***.com" },
      message: "notification sent",
    });
    expect(JSON.stringify(lines).toLowerCase()).not.toContain("unmistakable");
  });

  test("escapes the listing's texts in HTML", async () => {
    const mailServer = await openMailServer();
    await startTestWorker(await openServicesWithMail(services, mailServer.url));
    const markup = `<script>alert('1')</script> & "<b onclick=x>" &lt;`;
    const listing = await owner.addListing({
      title: markup,
      address: markup,
      city: markup,
      country: markup,
    });
    await owner.create(fixedStay(listing.id, { guestEmail: ADDRESS }));
    await expect.poll(() => mailServer.received.length).toBe(1);
    const { html = "", text = "", subject } = mailServer.received[0]?.mail ?? {};
    const escaped =
      "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;&lt;b onclick=x&gt;&quot; &amp;lt;";
    // In the title, the invitation, the address, the city and the country.
    expect(html.split(escaped)).toHaveLength(1 + 5);
    expect(html).not.toMatch(/<script|<b\b/);
    expect(text).toContain(markup);
    expect(subject).toBe(`Please register for your stay at ${markup}`);
  });

  test("is sent to the updated address if the form was updated before", async () => {
    const mailServer = await openMailServer();
    const { form } = await owner.create(stayWithAddress());
    const guestEmail = "corrected@example.com";
    await owner.forms.update({ id: form.id, ...fixedStay(owner.listingId, { guestEmail }) });
    await startTestWorker(await openServicesWithMail(services, mailServer.url));
    await expect.poll(() => mailServer.received.map(({ to }) => to)).toEqual([[guestEmail]]);
  });

  test("is sent after a rotation of the secrets", async () => {
    const mailServer = await openMailServer();
    await owner.create(stayWithAddress());
    await startTestWorker(
      withSecrets(await openServicesWithMail(services, mailServer.url), "n".repeat(32), TEST_SECRET),
    );
    await expect.poll(() => mailServer.received.map(({ to }) => to)).toEqual([[ADDRESS]]);
  });

  test("is not sent if the form was deleted", async () => {
    const { form } = await owner.create(stayWithAddress());
    const { form: other } = await owner.create(stayWithAddress());
    await services.db.pool.query("DELETE FROM forms WHERE id = $1", [form.id]);
    const mailServer = await openMailServer();
    await startTestWorker(await openServicesWithMail(services, mailServer.url));
    await expect.poll(listUnsent).toEqual([]);
    expect(mailServer.received.map(({ mail }) => mail.messageId)).toEqual([`<form-${other.id}@guest-forms>`]);
  });

  test("is not sent if the address was erased", async () => {
    const { form } = await owner.create(stayWithAddress());
    await services.db.pool.query("UPDATE forms SET guest_email = NULL WHERE id = $1", [form.id]);
    const mailServer = await openMailServer();
    const lines = await startTestWorker(await openServicesWithMail(services, mailServer.url));
    await expect
      .poll(() => lines)
      .toContainEqual({
        level: "info",
        facts: { formId: form.id },
        message: "notification dropped: the form or its address no longer exists",
      });
    await expect.poll(listUnsent).toEqual([]);
    expect(mailServer.received).toEqual([]);
  });

  test("waits until a worker with a mail server starts", async () => {
    const { form } = await owner.create(stayWithAddress());
    // `stop` waits for notifications that the worker has claimed.
    await (await startWorker(services, { info() {}, warn() {}, error() {} })).stop();
    expect(await listUnsent()).toEqual([
      expect.objectContaining({ formId: form.id, state: "waiting", attempts: 0 }),
    ]);
    const mailServer = await openMailServer();
    await startTestWorker(await openServicesWithMail(services, mailServer.url));
    await expect.poll(() => mailServer.received.length).toBe(1);
    expect(mailServer.received[0]?.mail.messageId).toBe(`<form-${form.id}@guest-forms>`);
    await expect.poll(listUnsent).toEqual([]);
  });
});

describe("a message rejected by the mail server", () => {
  test.each([
    [`550 <${ADDRESS}>: unknown`, "550 <U***@m***.com>: unknown"],
    [`451 <SRS0=x=${ADDRESS.toLowerCase()}> busy`, "451 <S***@m***.com> busy"],
    ["550 No user UNMISTAKABLE.GUEST here", "550 No user *** here"],
    ["554 mail.example.com: relay denied", "554 ***: relay denied"],
    ["connect ECONNREFUSED 127.0.0.1:25", "connect ECONNREFUSED 127.0.0.1:25"],
  ])("is recorded without the address: %s", (reply, redacted) => {
    expect(redactEmail(reply, ADDRESS)).toBe(redacted);
  });

  test("is recorded without an address that contains regular expression syntax", () => {
    expect(redactEmail("550 (no a+$&* here)", "a+$&*@x.de")).toBe("550 (no *** here)");
  });

  test("is retried with the same Message-ID, and neither log nor table shows the address", async () => {
    const mailServer = await openMailServer();
    const reply = `<${ADDRESS}> (${ADDRESS.toLowerCase()}): mailbox busy`;
    mailServer.rcptErrors.push({ code: 451, text: reply });
    const lines = await startTestWorker(await openServicesWithMail(services, mailServer.url));
    const { form } = await owner.create(stayWithAddress());
    const later = expect.objectContaining({ formId: form.id, state: "retrying", attempts: 1 });
    await expect.poll(listUnsent).toEqual([later]);
    const [job] = await listUnsent();
    expect(job?.lastError).toContain("mailbox busy");
    expect(Date.parse(job?.runAt ?? "")).toBeGreaterThan(Date.now());
    expect(mailServer.received).toEqual([]);
    const { rows } = await services.db.pool.query("SELECT n::text AS row FROM notifications n");
    for (const text of [JSON.stringify(rows), JSON.stringify(lines), JSON.stringify(job)]) {
      expect(text.toLowerCase()).not.toMatch(/unmistakable|mail\.example/);
    }
    await services.db.pool.query("UPDATE notifications SET next_attempt_at = now() WHERE id = $1", [job?.id]);
    await expect.poll(() => mailServer.received.length).toBe(1);
    expect(mailServer.received[0]?.mail.messageId).toBe(`<form-${form.id}@guest-forms>`);
    await expect.poll(listUnsent).toEqual([]);
  });

  test("is still listed after it was given up", async () => {
    const { form } = await owner.create(stayWithAddress());
    await services.db.pool.query(
      "UPDATE notifications SET state = 'failed', attempts = 25, last_error = 'refused' WHERE form_id = $1",
      [form.id],
    );
    await startTestWorker(services);
    expect(await listUnsent()).toEqual([
      expect.objectContaining({ formId: form.id, state: "failed", attempts: 25, lastError: "refused" }),
    ]);
    await services.db.pool.query("DELETE FROM notifications");
  });
});
