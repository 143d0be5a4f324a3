import { afterAll, expect, test, vi } from "vitest";
import { deriveKeyring } from "../../server/encryption.js";
import { canonicalBody, fingerprints, MAX_KEYS_PER_FORM } from "../../server/forms/idempotency.js";
import { createInput, type FormBody } from "../../server/forms/schema.js";
import { openTestCore } from "../support/core.js";
import { catchErrorCode, openTestServices } from "../support/factories.js";
import { openCoreOnCluster, openCoreWithSlowDisk } from "./core-on-cluster.js";

// Test files share modules. This one replaces one of them.
vi.hoisted(() => vi.resetModules());
afterAll(() => void vi.resetModules());

/** An optional field that a later version adds to the body. */
const laterVersion = vi.hoisted(() => ({ field: undefined as string | null | undefined }));

vi.mock("../../server/forms/idempotency.js", async (load) => {
  const module = await load<typeof import("../../server/forms/idempotency.js")>();
  const canonical: typeof module.canonicalBody = (body) => ({
    ...module.canonicalBody(body),
    ...(laterVersion.field !== undefined && { arrivalTime: laterVersion.field }),
  });
  return { ...module, canonicalBody: canonical };
});

const { sql, makeOwner } = await openTestCore();

const { fingerprint: keys } = deriveKeyring(["golden secret, of thirty-two chars", "an older one of thirty-two chars"]);

const hex = (body: FormBody) =>
  fingerprints(keys, canonicalBody(createInput.parse(body))).map((fingerprint) => fingerprint.toString("hex"));

const BODY = {
  listingId: "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa",
  checkInDate: "2027-07-01T15:00:00+02:00",
  checkOutDate: "2027-07-08T11:00:00.5+02:00",
  numberOfGuests: 4,
};

// Stored in every database. If they change, retries of existing creates make second forms.
const STORED = {
  plain: [
    "01623ba4bb9ce568fd39ffdd742af7b0543f7918e3527cedf27ec9e82f19595944",
    "013d8dc95ff8e553bd9a32378add44769d8be7a85fa79fb546935b4efbf9053fe2",
  ],
  withAddress: [
    "01a4a0d11760993af4c031d4bc3666f24b2453c1ab578151b4dff909ca2dc9b639",
    "011acd21f542858805bcc1288e179560876bede5d8a98c15d9d898a82d6ec7c72f",
  ],
};

test("stored fingerprints never change, newest secret first, for an address in any case of the domain, and for null as without one", () => {
  expect(hex(BODY)).toEqual(STORED.plain);
  expect(hex({ ...BODY, guestEmail: null })).toEqual(STORED.plain);
  expect(hex({ ...BODY, guestEmail: "Guest@Example.COM" })).toEqual(STORED.withAddress);
  expect(hex({ ...BODY, guestEmail: "Guest@example.com" })).toEqual(STORED.withAddress);
});

test("a create from before an optional field was added to the body is still replayed", async () => {
  const owner = await makeOwner();
  laterVersion.field = undefined;
  const { form } = await owner.create(owner.body, "before");
  laterVersion.field = null;
  expect(await owner.create(owner.body, "before")).toEqual({ form, replayed: true });
  expect(await owner.create(owner.body)).toEqual({ form, replayed: true });
  laterVersion.field = "18:00";
  expect((await owner.create(owner.body)).replayed).toBe(false);
});

test("a replay of a response stored before a field existed returns the field as null", async () => {
  const owner = await makeOwner();
  laterVersion.field = undefined;
  const { form } = await owner.create(owner.body);
  const remove = "UPDATE creations SET answer = answer - 'numberOfPets' - 'checkOutDate' WHERE form_id = $1";
  await sql(remove, form.id);
  const { form: replayed } = await owner.create(owner.body);
  expect(replayed).toEqual({ ...form, checkOutDate: null });
  expect(Object.keys(replayed)).toEqual(Object.keys(form));
});

test("replays with new Idempotency-Keys store at most 10 keys per form; an equal body with another one is always a replay, and the key remains unused", async () => {
  const owner = await makeOwner();
  const { body } = owner;
  const { form } = await owner.create(body, "0");
  for (let key = 1; key < MAX_KEYS_PER_FORM + 5; key++) {
    expect(await owner.create(body, `${key}`)).toEqual({ form, replayed: true });
  }
  expect((await owner.countRows()).keys).toBe(10);
  await sql("UPDATE forms SET status = 'REJECTED'");
  const again = await owner.create(body, "12");
  expect(again, "a retry, which cannot be told from a rebooked stay").toEqual({ form, replayed: true });
  const other = { ...body, numberOfGuests: 9 };
  expect(await catchErrorCode(owner.create(other, "9"))).toBe("IDEMPOTENCY_KEY_REUSED");
  expect((await owner.create(other, "10")).replayed).toBe(false);
  expect(await catchErrorCode(owner.create(body, "10"))).toBe("IDEMPOTENCY_KEY_REUSED");
  expect((await owner.create(body, "0")).form).toEqual(form);
});

test("a create waits for the disk", async () => {
  const { owner, delayMs, msOf } = await openCoreWithSlowDisk();
  expect(await msOf(() => owner.addForm())).toBeGreaterThan(delayMs);
  expect(await msOf(() => owner.create(owner.body, "new"))).toBeGreaterThan(delayMs);
});

test("with a synchronous standby, such a replay waits for it", async () => {
  const { owner, services, sql } = await openCoreOnCluster({
    synchronous_standby_names: "absent",
    synchronous_commit: "local",
  });
  await owner.create(owner.body, "known");
  const replicated = await openTestServices({
    DATABASE_URL: `${services.db.url}?options=${encodeURIComponent("-c synchronous_commit=on")}`,
  });
  const interrupted = catchErrorCode(owner.create(owner.body, "known", replicated));
  const WAITING = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
  await expect.poll(() => sql(`SELECT pid ${WAITING}`), { timeout: 5_000 }).toHaveLength(1);
  await sql(`SELECT pg_terminate_backend(pid) ${WAITING}`);
  expect(await interrupted).toBe("INTERNAL_ERROR");
});
