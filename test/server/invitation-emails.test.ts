import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { redactEmail } from "../../server/emails/masking.js";
import { ERASED_EMAIL } from "../../server/users/store.js";
import { NIL_UUID } from "../../server/values.js";
import { openTestCore } from "../support/core.js";
import { findCommand } from "../support/describe-with-binary.js";
import { asOperator } from "../support/factories.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { fixedStay } from "../support/stays.js";

const ADDRESS = "Unmistakable.Guest@mail.example.com";

const { services, owner, operator, sql, listUnsent, makeUser, setRole } = await openTestCore();

const PYTHON = findCommand("python3");
const READ_MAIL = `
import email, email.header, email.policy, email.utils, json, sys
data = sys.stdin.buffer.read()
mail = email.message_from_bytes(data, policy=email.policy.default)
name, address = email.utils.parseaddr(email.message_from_bytes(data)["from"])
part = lambda kind: mail.get_body((kind,)).get_content().replace("\\r\\n", "\\n").strip()
print(json.dumps({
  "from": [str(email.header.make_header(email.header.decode_header(name))), address],
  "to": mail["to"].addresses[0].addr_spec,
  "subject": mail["subject"],
  "id": mail["message-id"].strip(),
  "types": [each.get_content_type() for each in mail.walk()],
  "text": part("plain"),
  "html": part("html"),
  "defects": [str(defect) for each in mail.walk() for defect in [*each.defects, *each["content-type"].defects]],
  "longestLine": max(len(line) for line in data.split(b"\\r\\n")),
  "isAscii": data.isascii(),
}))`;

const PLACE = {
  title: "Loft",
  address: "Kanalweg 7",
  city: "Berlin",
  country: "Germany",
  zipCode: "10997",
  timezone: "Europe/Berlin",
};

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

test("an email is enqueued for a new form with an address, and not for replays, forms without an address or updates that leave it", async () => {
  const body = fixedStay(owner.listingId, { guestEmail: ADDRESS });
  const { form } = await owner.create(body);
  await owner.create(body, "again");
  const { form: bare } = await owner.create(fixedStay(owner.listingId));
  await owner.create(fixedStay(owner.listingId, { guestEmail: null }));
  const { forms } = owner;
  await forms.update({ id: bare.id, ...body, guestEmail: undefined, numberOfGuests: 3 });
  for (const guestEmail of [ADDRESS, undefined, null])
    await forms.update({ id: form.id, ...body, guestEmail, numberOfGuests: 3 });
  expect(await listUnsent()).toEqual([
    {
      id: expect.stringMatching(/^\d+$/),
      formId: form.id,
      listingId: form.listingId,
      checkInDate: form.checkInDate,
      endpointId: null,
      state: "waiting",
      attempts: 0,
      lastError: null,
      lastAttemptAt: null,
      runAt: expect.stringMatching(/^\d{4}-.*Z$/),
      sentAt: null,
      messageId: null,
      reply: null,
    },
  ]);
  const rows = await sql("SELECT kind, form_id FROM emails");
  expect(rows).toEqual([{ kind: "invitation", form_id: form.id }]);
  await sql("DELETE FROM emails");
});

describe("the message", () => {
  test("is sent to the guest with the stay in the listing's language and time zone", async () => {
    const { mailServer, lines } = await startSending({
      SMTP_FROM: "Hosts of Berlin <hosts@example.com>",
      FORM_URL_TEMPLATE: "https://forms.example.org/g/{publicId}?lang=en&from=mail",
      EMAIL_LANGUAGE: "fr",
    });
    const place = { address: "Kampa 5", city: "Praha", country: "Česko", timezone: "Pacific/Auckland" };
    const listing = await owner.addListing({ title: "Čajovna „U řeky“ 🏡, Loft & more", language: "de", ...place });
    const { form } = await owner.create(fixedStay(listing.id, { guestEmail: ADDRESS, numberOfGuests: 11 }));
    await expect.poll(() => mailServer.received.length).toBe(1);
    const [{ from, to, mail } = { from: "", to: [], mail: null }] = mailServer.received;
    expect(from).toBe("hosts@example.com");
    expect(to).toEqual([ADDRESS]);
    expect(mail).toMatchObject({
      messageId: `<form-${form.id}@example.com>`,
      from: { name: "Hosts of Berlin", address: "hosts@example.com" },
      to: [{ name: "", address: ADDRESS }],
      subject: "Anmeldeformular ausfüllen: Čajovna „U řeky“ 🏡, Loft & mo…",
      headers: expect.arrayContaining([expect.objectContaining({ key: "auto-submitted", value: "auto-generated" })]),
    });
    expect(mail?.replyTo).toBeUndefined();
    expect(mail?.headers.map(({ key }) => key)).not.toContain("list-unsubscribe");
    const html = mail?.html ?? "";
    // 13:00 and 09:00 UTC. Auckland is 12 hours ahead in July.
    const expected = [
      "Kampa 5",
      "Praha, Česko",
      "Freitag, 2.\u00a0Juli 2055 um\u00a001:00\u00a0Uhr",
      "Donnerstag, 8.\u00a0Juli 2055 um\u00a021:00\u00a0Uhr",
    ];
    for (const part of [...expected, "Neuseeland", "11"]) {
      expect(mail?.text).toContain(part);
      expect(html).toContain(part);
    }
    expect(mail?.text).toContain(listing.title);
    expect(mail?.text).toContain(`https://forms.example.org/g/${form.publicId}?lang=en&from=mail`);
    expect(html).toContain("Čajovna „U řeky“ 🏡, Loft &amp; more");
    expect(html).toContain(`<a href="https://forms.example.org/g/${form.publicId}?lang=en&amp;from=mail"`);
    await expect.poll(listUnsent).toEqual([]);
    const ids = { emailId: expect.any(String), correlationId: expect.any(String) };
    const handle = { messageId: mail?.messageId, reply: "250 OK: message queued" };
    const facts = { ...ids, formId: form.id, to: "U***@m***.com", ...handle };
    expect(lines).toContainEqual({ level: "info", facts, message: "email sent" });
    expect(JSON.stringify(lines).toLowerCase()).not.toContain("unmistakable");
  });

  test("keeps hostile titles in their place: escaped in HTML, and in the sender's name and the subject without new headers", async () => {
    const { mailServer } = await startSending({
      SMTP_FROM: '"{listing} (Hosts)" <hosts@example.com>',
      EMAIL_REPLY_TO_OWNER: "true",
    });
    const markup = `<script>alert('1')</script> & "Bcc: <b@x.de>, c@x.de" $& $$ &lt;`;
    const quoted = `<script>alert('1')</script> & "Bcc: b, c" $& $$ \\ &lt;, d;`;
    const rtl = `${"דירה ".repeat(30)}"; <x>`;
    for (const title of [quoted, rtl]) {
      await createWithAddress((await owner.addListing({ title, address: markup })).id);
      await expect.poll(() => mailServer.received.length).toBe(1);
      const [{ from, to, mail } = expect.fail()] = mailServer.received.splice(0);
      expect([from, to]).toEqual(["hosts@example.com", [ADDRESS]]);
      expect(mail.from).toEqual({ name: `${title} (Hosts)`, address: "hosts@example.com" });
      expect(mail.to).toEqual([{ name: "", address: ADDRESS }]);
      expect(mail.replyTo).toEqual([{ name: "", address: expect.stringMatching(/^user\d+@example\.com$/) }]);
      expect([mail.cc, mail.bcc]).toEqual([undefined, undefined]);
      expect(mail.subject).toContain(title.slice(0, 20));
      expect(mail.text).toContain(title);
      expect(mail.html).not.toMatch(/<script|<b@|<x@/);
      expect(mail.html).toContain("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &#34;Bcc: &lt;b@x.de&gt;");
    }
  });

  test.skipIf(!PYTHON)(
    `is read the same by Python's email package${PYTHON ? "" : ": SKIPPED because python3 is not installed"}`,
    async () => {
      const { mailServer } = await startSending({ SMTP_FROM: "{listing} <hosts@müller.example>" });
      const listing = await owner.addListing({ title: "Čajovna „U řeky“, דירה & 🏡", language: "fr" });
      const form = await createWithAddress(listing.id);
      await expect.poll(() => mailServer.received.length).toBe(1);
      const { bytes, mail } = mailServer.received[0] ?? expect.fail();
      const running = promisify(execFile)("python3", ["-c", READ_MAIL]);
      running.child.stdin?.end(bytes);
      expect(JSON.parse((await running).stdout)).toEqual({
        from: [listing.title, "hosts@xn--mller-kva.example"],
        to: ADDRESS,
        subject: mail.subject,
        id: `<form-${form.id}@xn--mller-kva.example>`,
        types: ["multipart/alternative", "text/plain", "text/html"],
        text: mail.text?.trim(),
        html: mail.html?.trim(),
        defects: [],
        // RFC 5322, 2.1.1.
        longestLine: expect.toSatisfy((length: number) => length <= 998),
        isAscii: true,
      });
      expect(mail.subject).toBe("Enregistrement à compléter\u00a0: Čajovna „U řeky“, דירה & 🏡");
    },
  );

  test("names the owner of the listing whose account is the oldest, and never a writer, a reader or an erased owner", async () => {
    const [erased, writer, reader] = [
      await makeUser({ name: "Erased Eva" }),
      await makeUser({ name: "Writer Will" }),
      await makeUser({ name: "Reader Rosa" }),
    ];
    const [first, second] = [await makeUser({ name: "First Fay" }), await makeUser({ name: "Second Sam" })];
    const { id } = await operator.listings.create({ ...PLACE, ownerId: second.id });
    for (const userId of [writer.id, owner.userId]) await setRole(id, userId, "WRITER");
    await setRole(id, reader.id, "READER");
    for (const user of [first, erased]) await setRole(id, user.id, "OWNER");
    // Erased, except for the membership, which another transaction may have added.
    await sql(`UPDATE users SET email = ${ERASED_EMAIL} WHERE id = $1`, erased.id);
    const { mailServer } = await startSending({ EMAIL_REPLY_TO_OWNER: "true" });
    for (const host of [first, second]) {
      await createWithAddress(id);
      await expect.poll(() => mailServer.received.length, { timeout: 5_000 }).toBe(1);
      const [{ bytes, mail } = expect.fail()] = mailServer.received.splice(0);
      expect(mail.replyTo).toEqual([{ name: host.name, address: host.email }]);
      expect(mail.text).toContain(`Your host, ${host.name},`);
      const others = [erased, writer, reader, first, second].filter((user) => user !== host);
      for (const { name, email } of others)
        for (const part of [name ?? "", email]) expect(`${bytes} ${mail.text} ${mail.html}`).not.toContain(part);
      await setRole(id, first.id, "READER");
    }
  });

  test("is previewed as it will be sent, or in another language", async () => {
    const listing = await owner.addListing({ title: "Piso del puerto", language: "es" });
    const { id: formId } = await createWithAddress(listing.id);
    const { mailServer } = await startSending();
    await expect.poll(() => mailServer.received.length).toBe(1);
    const { mail } = mailServer.received[0] ?? expect.fail();
    const { emails } = asOperator(await openServicesWithMail(services, mailServer.url));
    const preview = await emails.preview({ formId });
    expect(preview).toMatchObject({ language: "es", subject: mail.subject, html: `${mail.html?.trim()}\n` });
    expect((await emails.preview({ formId, language: "NL" })).subject).toBe(
      "Gastregistratie invullen: Piso del puerto",
    );
    await expect(emails.preview({ formId, language: "sv" })).rejects.toMatchObject({
      errors: [{ field: "language", issue: "must be one of de, en, es, fr, it, nl, pt, in which there are templates" }],
    });
    await expect(emails.preview({ formId: NIL_UUID })).rejects.toMatchObject({
      serviceCode: "RESOURCE_NOT_FOUND",
    });
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
