import { beforeEach, describe, expect, test } from "vitest";
import type { Services } from "../../server/access/context.js";
import { eraseDueEmails } from "../../server/erasure/erase.js";
import { startWorker } from "../../server/worker.js";
import { openTestCore } from "../support/core.js";
import { asOperator, catchServiceError, TEST_SECRET, withSecrets } from "../support/factories.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { fixedStay } from "../support/stays.js";
import { openClient } from "./open-test-db.js";

const ADDRESS = "Unmistakable.Guest@mail.example.com";
const LOCK_FORM = "SELECT FROM forms WHERE id = $1 FOR UPDATE";
const log = { info() {} };

const core = await openTestCore();
const { services, owner, operator, sql, runBehind, holdLock, waitForBlocked } = core;
const { people } = operator;

beforeEach(() => sql("TRUNCATE forms, audit_entries CASCADE"));

let guests = 0;
const body = (guestEmail: string | null = ADDRESS) =>
  fixedStay(owner.listingId, { guestEmail, numberOfGuests: ++guests });

const create = async (guestEmail: string | null = ADDRESS) => (await owner.create(body(guestEmail))).form;

/** Returns the ids of the forms that have an address. */
async function formsWithAddress(): Promise<string[]> {
  const rows = await sql("SELECT id FROM forms WHERE guest_email IS NOT NULL");
  return rows.map(({ id }) => id).toSorted();
}

/** Sets the check-out of these forms, by default of all, to this long ago. */
const setCheckOutAgo = (interval: string, ids?: string[]) =>
  sql(
    `UPDATE forms SET check_in_date = now() - interval '10 years', check_out_date = now() - $1::interval
     WHERE id = ANY ($2) OR $2 IS NULL`,
    interval,
    ids ?? null,
  );

const erasureEntries = async (id: string) =>
  (await operator.audit.trail({ subjectId: id })).filter(({ action }) => action === "form.email_erased");

const formsWithUnsent = async () => (await core.listUnsent()).map(({ formId }) => formId);

describe("people.find", () => {
  test("returns the public form of each form that has the address, in any case, and no other, oldest first", async () => {
    const found: unknown[] = [];
    for (let count = 0; count < 6; count++) found.push(await create(count % 2 ? ADDRESS : ADDRESS.toUpperCase()));
    await create("another.guest@mail.example.com");
    await create(null);
    const shown = await people.find({ email: ADDRESS.toLowerCase() });
    expect(shown).toEqual({ forms: found, unreadable: 0 });
    expect(JSON.stringify(shown)).not.toMatch(/@|email/i);
    expect(await people.find({ email: "nobody@example.com" })).toEqual({ forms: [], unreadable: 0 });
  });

  test("counts the addresses that no secret decrypts", async () => {
    const { id } = await create();
    const other = asOperator(withSecrets(services, "another-secret-of-more-than-32-characters"));
    expect(await other.people.find({ email: ADDRESS })).toEqual({ forms: [], unreadable: 1 });
    expect((await people.find({ email: ADDRESS })).forms).toMatchObject([{ id }]);
  });
});

describe("RETENTION_DAYS after check-out, a guest's address", () => {
  test("is erased, not earlier, and audited once per form as done by the system, with its unsent email", async () => {
    const [due, bare, early] = [await create(), await create(null), await create()];
    await setCheckOutAgo("90 days 1 minute", [due.id, bare.id]);
    await setCheckOutAgo("89 days 23 hours", [early.id]);
    await eraseDueEmails(services, log);
    await eraseDueEmails(services, log);
    expect(await formsWithAddress()).toEqual([early.id]);
    expect(await formsWithUnsent()).toEqual([early.id]);
    expect(await erasureEntries(due.id)).toEqual([
      expect.objectContaining({ actor: "system", actorId: null, details: { reason: "retention" } }),
    ]);
    for (const { id } of [bare, early]) expect(await erasureEntries(id)).toEqual([]);
  });

  test("is erased from any number of forms; a form locked by a writer is skipped until the next run", async () => {
    const { id } = await create();
    await sql(
      `INSERT INTO forms (public_id, listing_id, guest_email, fingerprint)
       SELECT 'bulk-' || n, $1, '\\x00', '\\x00' FROM generate_series(1, 450) n`,
      owner.listingId,
    );
    await setCheckOutAgo("91 days");
    const writer = await holdLock(LOCK_FORM, [id]);
    await eraseDueEmails(services, log);
    expect(await formsWithAddress()).toEqual([id]);
    await writer.commit();
    await eraseDueEmails(services, log);
    expect(await formsWithAddress()).toEqual([]);
    expect(await sql("SELECT FROM audit_entries WHERE action = 'form.email_erased'")).toHaveLength(451);
  });

  test("can be erased without effect on replays (same, another or no Idempotency-Key) and updates", async () => {
    const request = body();
    const { form } = await owner.create(request, "key");
    await setCheckOutAgo("91 days");
    await eraseDueEmails(services, log);
    for (const key of ["key", undefined, "another"]) {
      expect(await owner.create(request, key)).toEqual({ form, replayed: true });
    }
    const { guestEmail: _, ...without } = request;
    const { forms } = owner;
    const updated = await forms.update({ id: form.id, ...without, numberOfGuests: 9 });
    expect(updated).toMatchObject({ id: form.id, numberOfGuests: 9 });
    expect(await formsWithAddress()).toEqual([]);
    await forms.update({ id: form.id, ...without, guestEmail: "new@example.com" });
    expect(await formsWithAddress()).toEqual([form.id]);
  });

  test.each([
    ["is erased by the worker at its start", "90", 0],
    ["is never erased if RETENTION_DAYS is 0", "0", 1],
  ])("%s", async (_, RETENTION_DAYS, kept) => {
    const workerServices = await core.openProcess({ RETENTION_DAYS });
    await create();
    await setCheckOutAgo("3000 days");
    const worker = await startWorker(workerServices, { info() {}, warn() {}, error() {} });
    // Waits for an erasure that has begun.
    await worker.stop();
    expect(await formsWithAddress()).toHaveLength(kept);
  });
});

describe("people.erase: on a guest's request, an address", () => {
  test("is erased from every form that has it, in any case, with its unsent emails", async () => {
    const addresses = [ADDRESS, ADDRESS.toUpperCase(), "unmistakable.guest@MAIL.example.com"];
    const found = [];
    for (const address of addresses) found.push((await create(address)).id);
    const others = [
      await create("guest@mail.example.com"),
      await create("unmistakable.guest@mail.example.org"),
      await create("xunmistakable.guest@mail.example.com"),
      await create(null),
    ].map(({ id }) => id);
    const erased = await people.erase({ email: ` ${ADDRESS.toLowerCase()} ` });
    expect(erased).toMatchObject({ forms: 3, emails: 3, unreadable: 0 });
    expect(await formsWithAddress()).toEqual(others.slice(0, 3).toSorted());
    expect((await formsWithUnsent()).toSorted()).toEqual(others.slice(0, 3).toSorted());
    for (const id of found) {
      expect(await erasureEntries(id)).toEqual([
        expect.objectContaining({ actor: "operator", details: { reason: "request" } }),
      ]);
    }
    for (const id of others) expect(await erasureEntries(id)).toEqual([]);
    const nothing = { forms: 0, emails: 0, unreadable: 0 };
    expect(await people.erase({ email: ADDRESS })).toMatchObject(nothing);
  });

  test("is found after a rotation of the secrets; addresses that no secret can decrypt are counted as unreadable", async () => {
    await create();
    const rotated = withSecrets(services, "n".repeat(32), TEST_SECRET);
    const lost = withSecrets(services, "l".repeat(32));
    await owner.create(body(), undefined, lost);
    await owner.create(body(), undefined, rotated);
    const counts = { forms: 2, emails: 2, unreadable: 1 };
    expect(await asOperator(rotated).people.erase({ email: ADDRESS })).toMatchObject(counts);
  });

  test("written by a concurrent update is kept", async () => {
    const [{ id }, other] = [await create(), await createOther()];
    // Sealed for another form, so it cannot be decrypted and does not match the erased address.
    const change = "UPDATE forms SET guest_email = (SELECT guest_email FROM forms WHERE id = $2) WHERE id = $1";
    const erased = await runBehind([change, id, other.id], () => people.erase({ email: ADDRESS }));
    expect(erased).toMatchObject({ forms: 0 });
    expect(await formsWithAddress()).toContain(id);
    expect(await erasureEntries(id)).toEqual([]);
  });

  const createOther = () => create("other@example.com");

  test("is erased from a form created, and from one changed, where the search has already been; the record has the time at which it began", async () => {
    const [found, changed] = [await create(), await createOther()];
    const lock = await holdLock(LOCK_FORM, [found.id]);
    const erasing = people.erase({ email: ADDRESS });
    await waitForBlocked(1);
    const created = await create();
    await owner.forms.update({ id: changed.id, ...body() });
    await lock.commit();
    const { erasedAt, ...counts } = await erasing;
    expect(counts).toMatchObject({ forms: 3, emails: 3, unreadable: 0 });
    expect(await formsWithAddress()).toEqual([]);
    expect(erasedAt <= created.createdAt).toBe(true);
    expect(await people.erasures({ since: erasedAt })).toMatchObject([{ erasedAt }]);
  });

  test("waits for no transaction that has locked a listing and writes no form", async () => {
    await create();
    const lock = await holdLock("SELECT FROM listings FOR UPDATE");
    expect(await people.erase({ email: ADDRESS })).toMatchObject({ forms: 1 });
    await lock.rollback();
  });

  test.each([
    ["a create", () => create(), async () => ""],
    ["an update", (id: string) => owner.forms.update({ id, ...body() }), async () => (await createOther()).id],
  ])("is erased from the form of %s that began before the search and ends after it", async (_, write, prepare) => {
    const id = await prepare();
    // Blocks it at its end, after it has written the form.
    const lock = await holdLock("LOCK TABLE audit_entries IN SHARE MODE");
    const writing = write(id);
    await waitForBlocked(1);
    const erasing = people.erase({ email: ADDRESS });
    await waitForStatement("SELECT virtualtransaction AS id FROM pg_locks WHERE relation");
    await lock.commit();
    await writing;
    expect(await erasing).toMatchObject({ forms: 1, emails: 1 });
    expect(await formsWithAddress()).toEqual([]);
  });

  test("that somebody keeps writing makes the erasure fail; run again, it erases the rest", async () => {
    const longTransaction: Services["db"]["longTransaction"] = async (work) => {
      await create();
      return services.db.longTransaction(work);
    };
    const interrupted = { ...services, db: { ...services.db, longTransaction } };
    const before = await people.erasures({});
    const error = await catchServiceError(asOperator(interrupted).people.erase({ email: ADDRESS }));
    expect(error.message).toMatch(/not complete.* Run it again/);
    expect(await people.erasures({})).toEqual(before);
    await create();
    expect(await people.erase({ email: ADDRESS })).toMatchObject({ forms: 1 });
    expect(await formsWithAddress()).toEqual([]);
  });

  /** Waits until a connection's last statement starts with this text, regardless of its whitespace. */
  async function waitForStatement(start: string): Promise<void> {
    // Not on the pool, where it would replace that statement.
    const client = await openClient(services.db.url);
    const isLast = `starts_with(trim(regexp_replace(query, '\\s+', ' ', 'g')), $1)`;
    const read = () =>
      client.query(`SELECT FROM pg_stat_activity WHERE datname = current_database() AND ${isLast}`, [start]);
    await expect.poll(async () => (await read()).rows.length).toBeGreaterThan(0);
  }

  test("to which a message is being sent gets no further attempt", async () => {
    const mailServer = await openMailServer();
    mailServer.holdRcpt();
    mailServer.rcptErrors.push({ code: 451, text: "busy" });
    await create();
    const lines = await startTestWorker(await openServicesWithMail(services, mailServer.url));
    await expect.poll(() => mailServer.rcptCount).toBe(1);
    expect(await people.erase({ email: ADDRESS })).toMatchObject({ forms: 1, emails: 0 });
    mailServer.releaseRcpt();
    const skipped = () => lines.filter(({ message }) => message.startsWith("email dropped"));
    await expect.poll(() => skipped().length).toBe(1);
    await expect.poll(formsWithUnsent).toEqual([]);
    expect([mailServer.rcptCount, mailServer.received]).toEqual([1, []]);
  });
});
