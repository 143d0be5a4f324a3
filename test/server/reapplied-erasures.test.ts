import { beforeEach, describe, expect, test } from "vitest";
import { openTestCore } from "../support/core.js";
import { asOperator, catchErrorCode, TEST_SECRET, withSecrets } from "../support/factories.js";
import { restoreAddresses } from "../support/personal-data.js";
import { fixedStay } from "../support/stays.js";

const ADDRESS = "Returning.Guest@mail.example.com";

const core = await openTestCore();
const { services, owner, operator, sql, holdLock, waitForBlocked } = core;

beforeEach(() => sql("TRUNCATE forms, audit_entries, erasures CASCADE"));

const people = (on = services) => asOperator(on).people;

let guests = 0;
const create = async (guestEmail: string) =>
  (await owner.create(fixedStay(owner.listingId, { guestEmail, numberOfGuests: ++guests }))).form;

/** Makes the stored erasures a minute older, so that what comes next is not in the same millisecond. */
const passTime = () => sql("UPDATE erasures SET erased_at = erased_at - interval '1 minute'");

const formsWithAddress = async (): Promise<string[]> =>
  (await sql("SELECT id FROM forms WHERE guest_email IS NOT NULL")).map(({ id }) => id);

const NOTHING = { forms: 0, emails: 0, unreadable: 0, applied: 0, known: 0, unknownSecret: 0 };

test("people.erase returns and stores a record only after the whole erasure, so that a backup with the record has no such address", async () => {
  const { id } = await create(ADDRESS);
  const updater = await holdLock("SELECT FROM forms WHERE id = $1 FOR UPDATE", [id]);
  const erasing = people().erase({ email: ADDRESS });
  await waitForBlocked(1);
  expect(await people().erasures({})).toEqual([]);
  await updater.commit();
  await erasing;
  expect(await people().erasures({})).toHaveLength(1);
});

describe("people.reapply erases what a restored backup brought back:", () => {
  test("the address of every form and its unsent email, once, audited per form", async () => {
    const [one, two, kept] = [await create(ADDRESS), await create(ADDRESS), await create("kept@example.com")];
    const record = await people().erase({ email: ADDRESS });
    await restoreAddresses(services, { [one.id]: ADDRESS, [two.id]: ADDRESS.toUpperCase() });
    const records = [record, record, { ...record, erasedAt: "2020-01-01T00:00:00Z" }];
    const first = await people().reapply({ records });
    expect(first).toEqual({ ...NOTHING, forms: 2, emails: 2, applied: 1 });
    expect(await formsWithAddress()).toEqual([kept.id]);
    expect((await core.listUnsent()).map(({ formId }) => formId)).toEqual([kept.id]);
    const trail = await operator.audit.trail({ subjectId: one.id });
    expect(trail.filter(({ action }) => action === "form.email_erased")).toEqual([
      expect.objectContaining({ actor: "operator", details: { reason: "restore" } }),
      expect.objectContaining({ actor: "operator", details: { reason: "request" } }),
    ]);
    expect(await people().reapply({ records })).toEqual({ ...NOTHING, known: 1 });
    const { erasedAt, addressHash } = record;
    expect(await people().erasures({})).toEqual([{ erasedAt, addressHash }]);
  });

  test("erasures that the backup already had are skipped, and so are forms created after the erasure", async () => {
    await people().erase({ email: ADDRESS });
    await passTime();
    const [before = expect.fail()] = await people().erasures({});
    const again = await create(ADDRESS);
    expect(await people().reapply({ records: [before] })).toEqual({ ...NOTHING, known: 1 });
    await sql("TRUNCATE erasures");
    expect(await people().reapply({ records: [before] })).toEqual({ ...NOTHING, applied: 1 });
    expect(await formsWithAddress()).toEqual([again.id]);
    const later = await people().erase({ email: ADDRESS });
    await restoreAddresses(services, { [again.id]: ADDRESS });
    await people().reapply({ records: [before] });
    expect(await people().reapply({ records: [later] })).toMatchObject({ applied: 1, forms: 1 });
  });

  test("records of any listed secret are applied, those of others counted, and applied once their secret is listed", async () => {
    const { id } = await create(ADDRESS);
    const [old, renewed] = [services, withSecrets(services, "n".repeat(32), TEST_SECRET)];
    const byOld = await people(old).erase({ email: ADDRESS });
    const byNew = await people(renewed).erase({ email: ADDRESS });
    expect(byNew.addressHash).not.toBe(byOld.addressHash);
    await restoreAddresses(services, { [id]: ADDRESS });
    expect(await people(old).reapply({ records: [byNew] })).toEqual({ ...NOTHING, unknownSecret: 1 });
    expect(await formsWithAddress()).toEqual([id]);
    expect(await people(renewed).reapply({ records: [byNew] })).toMatchObject({ forms: 1, applied: 1 });
    await restoreAddresses(services, { [id]: ADDRESS });
    expect(await people(renewed).reapply({ records: [byOld] })).toMatchObject({ forms: 1, applied: 1 });
  });

  test("among more forms and records than one batch", async () => {
    const { id } = await create(ADDRESS);
    const record = await people().erase({ email: ADDRESS });
    await restoreAddresses(services, { [id]: ADDRESS });
    for (let n = 0; n < 250; n++) await create(`guest${n}@example.com`);
    const hashOf = (n: number) => {
      const bytes = Buffer.from(record.addressHash, "base64url");
      bytes.writeUInt32BE(n, 20);
      return bytes.toString("base64url");
    };
    const others = Array.from({ length: 2_500 }, (_, n) => ({ ...record, addressHash: hashOf(n) }));
    const counts = await people().reapply({ records: [...others, record] });
    expect(counts).toEqual({ ...NOTHING, forms: 1, emails: 1, applied: 2501 });
    expect(await people().erasures({})).toHaveLength(2501);
  });

  test("addresses that no listed secret decrypts are counted, and the records applied to them once their secret is listed", async () => {
    const renewed = withSecrets(services, "n".repeat(32), TEST_SECRET);
    const { id } = await create(ADDRESS);
    const record = await people(renewed).erase({ email: ADDRESS });
    await restoreAddresses(services, { [id]: ADDRESS });
    const incomplete = withSecrets(services, "n".repeat(32));
    const counts = await people(incomplete).reapply({ records: [record] });
    expect(counts).toEqual({ ...NOTHING, unreadable: 1, applied: 1 });
    expect(await people().erasures({})).toEqual([]);
    expect(await people(renewed).reapply({ records: [record] })).toMatchObject({ forms: 1, applied: 1 });
  });

  test("a run that fails stores no record, so that the next one repeats it completely", async () => {
    const { id } = await create(ADDRESS);
    const record = await people().erase({ email: ADDRESS });
    await restoreAddresses(services, { [id]: ADDRESS });
    const lock = await holdLock("SELECT FROM forms WHERE id = $1 FOR UPDATE", [id]);
    const hurried = await core.openProcess({ DATABASE_LOCK_TIMEOUT_MS: "100" });
    expect(await catchErrorCode(people(hurried).reapply({ records: [record] }))).toBe("INTERNAL_ERROR");
    expect(await people().erasures({})).toEqual([]);
    await lock.commit();
    expect(await people().reapply({ records: [record] })).toMatchObject({ forms: 1, applied: 1 });
  });
});
