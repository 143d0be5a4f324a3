import { describe, expect, test } from "vitest";
import { redactEmail } from "../../server/emails/masking.js";
import { openTestCore } from "../support/core.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { fixedStay } from "../support/stays.js";

const ADDRESS = "Unmistakable.Guest@mail.example.com";

const { services, owner, sql, listUnsent } = await openTestCore();

/** Every stay has another number of guests, so that no create is a replay. */
let guests = 20;
const createWithAddress = async (listingId = owner.listingId) =>
  (await owner.create(fixedStay(listingId, { guestEmail: ADDRESS, numberOfGuests: ++guests }))).form;

/** Starts a mail server, and a worker that sends to it. `lines` is the worker's log. */
async function startSending(env: Record<string, string> = {}) {
  const mailServer = await openMailServer();
  const lines = await startTestWorker(await openServicesWithMail(services, mailServer.url, env));
  return { mailServer, lines };
}

test("a notification is enqueued for a new form with an address, and not for replays, forms without an address or updates", async () => {
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
      endpointId: null,
      state: "waiting",
      attempts: 0,
      lastError: null,
      runAt: expect.stringMatching(/^\d{4}-.*Z$/),
      sentAt: null,
    },
  ]);
  const rows = await sql("SELECT kind, form_id FROM notifications");
  expect(rows).toEqual([{ kind: "form.created", form_id: form.id }]);
  await sql("DELETE FROM notifications");
});

describe("the message", () => {
  test("is sent to the guest with the stay in the listing's time zone", async () => {
    const { mailServer, lines } = await startSending({
      SMTP_FROM: "Hosts of Berlin <hosts@example.com>",
      FORM_URL_TEMPLATE: "https://forms.example.org/g/{publicId}?lang=en&from=mail",
    });
    const place = { address: "Kampa 5", city: "Praha", country: "Česko", timezone: "Pacific/Auckland" };
    const listing = await owner.addListing({ title: "Čajovna „U řeky“ 🏡, Loft & more", ...place });
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
      headers: expect.arrayContaining([expect.objectContaining({ key: "auto-submitted", value: "auto-generated" })]),
    });
    // 13:00 and 09:00 UTC. Auckland is 12 hours ahead in July.
    for (const part of [
      ...[/Check-in: +Friday,? 2 July 2055 at 01:00 \(Pacific\/Auckland\)/, /Guests: +11/, /Kampa 5, Praha, Česko/],
      /Check-out: +Thursday,? 8 July 2055 at 21:00 \(Pacific\/Auckland\)/,
    ]) {
      expect(mail?.text).toMatch(part);
    }
    expect(mail?.text).toContain(listing.title);
    expect(mail?.text).toContain(`https://forms.example.org/g/${form.publicId}?lang=en&from=mail`);
    const html = mail?.html ?? "";
    expect(html).toMatch(/Check-in<\/th><td>Friday,? 2 July 2055 at 01:00 \(Pacific\/Auckland\)</);
    expect(html).toContain("Čajovna „U řeky“ 🏡, Loft &amp; more");
    expect(html).toContain(`<a href="https://forms.example.org/g/${form.publicId}?lang=en&amp;from=mail">`);
    await expect.poll(listUnsent).toEqual([]);
    const facts = { formId: form.id, to: "U***@m***.com" };
    expect(lines).toContainEqual({ level: "info", facts, message: "notification sent" });
    expect(JSON.stringify(lines).toLowerCase()).not.toContain("unmistakable");
  });

  test("escapes the listing's texts in HTML", async () => {
    const { mailServer } = await startSending();
    const markup = `<script>alert('1')</script> & "<b onclick=x>" &lt;`;
    const texts = { title: markup, address: markup, city: markup, country: markup };
    await createWithAddress((await owner.addListing(texts)).id);
    await expect.poll(() => mailServer.received.length).toBe(1);
    const { html = "", text = "", subject } = mailServer.received[0]?.mail ?? {};
    const escaped = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;&lt;b onclick=x&gt;&quot; &amp;lt;";
    // In the title, the invitation, the address, the city and the country.
    expect(html.split(escaped)).toHaveLength(1 + 5);
    expect(html).not.toMatch(/<script|<b\b/);
    expect(text).toContain(markup);
    expect(subject).toBe(`Please register for your stay at ${markup}`);
  });

  test("is sent to the updated address if the form was updated before", async () => {
    const { id } = await createWithAddress();
    const guestEmail = "corrected@example.com";
    await owner.forms.update({ id, ...fixedStay(owner.listingId, { guestEmail }) });
    const { mailServer } = await startSending();
    await expect.poll(() => mailServer.received.map(({ to }) => to)).toEqual([[guestEmail]]);
  });
});

test.each([
  [`550 <${ADDRESS}>: unknown`, "550 <U***@m***.com>: unknown"],
  [`451 <SRS0=x=${ADDRESS.toLowerCase()}> busy`, "451 <S***@m***.com> busy"],
  ["550 No user UNMISTAKABLE.GUEST here", "550 No user *** here"],
  ["554 mail.example.com: relay denied", "554 ***: relay denied"],
  ["connect ECONNREFUSED 127.0.0.1:25", "connect ECONNREFUSED 127.0.0.1:25"],
  ["550 (no a+$&* here)", "550 (no *** here)", "a+$&*@x.de"],
])(
  "a message rejected by the mail server is recorded without the address: %s",
  (reply, redacted, address = ADDRESS) => {
    expect(redactEmail(reply, address)).toBe(redacted);
  },
);
