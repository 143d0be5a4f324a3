import { beforeAll, describe, expect, test, vi } from "vitest";
import type { Services } from "../../server/context.js";
import { canonicalBody, fingerprints } from "../../server/forms/idempotency.js";
import { deriveKeyring } from "../../server/secrets.js";
import { openTestServices } from "../factories.js";
import { makeListingOwner } from "./listing-owner.js";

/** A field that the body gets in a later version; absent unless set. */
const later = vi.hoisted(() => ({ field: undefined as string | null | undefined }));

vi.mock("../../server/forms/idempotency.js", async (load) => {
  const module = await load<typeof import("../../server/forms/idempotency.js")>();
  const canonical: typeof module.canonicalBody = (body) => ({
    ...module.canonicalBody(body),
    ...(later.field !== undefined && { arrivalTime: later.field }),
  });
  return { ...module, canonicalBody: canonical };
});

let services: Services;

beforeAll(async () => {
  services = await openTestServices();
});

const { fingerprint: keys } = deriveKeyring([
  "golden secret, of thirty-two chars",
  "an older one of thirty-two chars",
]);

const hex = (body: Parameters<typeof canonicalBody>[0]) =>
  fingerprints(keys, canonicalBody(body)).map((fingerprint) => fingerprint.toString("hex"));

const BODY = {
  listingId: "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa",
  checkInDate: "2027-07-01T15:00:00+02:00",
  checkOutDate: "2027-07-08T11:00:00.5+02:00",
  numberOfGuests: 4,
};

// Stored with the forms of every host: to change them is to lose their replays.
const GOLDEN = {
  plain: [
    "01623ba4bb9ce568fd39ffdd742af7b0543f7918e3527cedf27ec9e82f19595944",
    "013d8dc95ff8e553bd9a32378add44769d8be7a85fa79fb546935b4efbf9053fe2",
  ],
  withAddress: [
    "01a4a0d11760993af4c031d4bc3666f24b2453c1ab578151b4dff909ca2dc9b639",
    "011acd21f542858805bcc1288e179560876bede5d8a98c15d9d898a82d6ec7c72f",
  ],
};

describe("fingerprints of stored creates stay recognizable", () => {
  test("a body without an address has these fingerprints, newest secret first", () => {
    expect(hex(BODY)).toEqual(GOLDEN.plain);
  });

  test("a body with an address has these fingerprints, whatever the case of its domain", () => {
    expect(hex({ ...BODY, guestEmail: "Guest@Example.COM" })).toEqual(GOLDEN.withAddress);
    expect(hex({ ...BODY, guestEmail: "Guest@example.com" })).toEqual(GOLDEN.withAddress);
  });

  test("null counts as absent, and every fingerprint begins with its version", () => {
    expect(hex({ ...BODY, guestEmail: null })).toEqual(GOLDEN.plain);
    for (const one of [...GOLDEN.plain, ...GOLDEN.withAddress]) expect(one).toMatch(/^01[\da-f]{64}$/);
  });
});

test("a create that was made before the body had an optional field is replayed afterwards", async () => {
  const owner = await makeListingOwner(services);
  later.field = undefined;
  const { form } = await owner.create(owner.body, "before");
  later.field = null;
  expect(await owner.create(owner.body, "before")).toEqual({ form, replayed: true });
  expect(await owner.create(owner.body)).toEqual({ form, replayed: true });
  later.field = "18:00";
  const other = await owner.create(owner.body);
  expect(other.replayed).toBe(false);
  expect(other.form.id).not.toBe(form.id);
});

test("a replay of an answer stored before a field existed has the field, null", async () => {
  const owner = await makeListingOwner(services);
  later.field = undefined;
  const { form } = await owner.create(owner.body);
  await services.db.pool.query(
    "UPDATE creations SET answer = answer - 'numberOfPets' - 'checkOutDate' WHERE form_id = $1",
    [form.id],
  );
  const { form: replayed } = await owner.create(owner.body);
  expect(replayed).toEqual({ ...form, checkOutDate: null });
  expect(Object.keys(replayed)).toEqual(Object.keys(form));
});
