import { describe, expect, test } from "vitest";
import type { FieldError } from "../../server/errors.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { makeKey } from "../support/factories.js";
import { startTestGateway } from "../support/gateway.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { uniqueStay } from "../support/stays.js";

// What only HTTP shows of external ids, links, cancelling and replays.

const TEMPLATE = "https://stays.example.com/{publicId}/register?form={publicId}";
const gateway = await startTestGateway({ FORM_URL_TEMPLATE: TEMPLATE });
const services = await gateway.services();
const owner = await makeListingOwner(services);
const { key } = await makeKey(services, owner.userId);

/** A form, a page or an error. */
type Body = FormV1 & { items: FormV1[]; code: string; errors: FieldError[] };

async function send(method: string, path: string, body?: object, headers: Record<string, string> = {}) {
  const response = await fetch(`${gateway.url}${path}`, {
    method,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", ...headers },
    ...(body && { body: JSON.stringify(body) }),
  });
  return { status: response.status, headers: response.headers, json: (await response.json()) as Body };
}

const create = (body: object, idempotencyKey?: string) =>
  send("POST", "/v1/forms", body, idempotencyKey === undefined ? {} : { "Idempotency-Key": idempotencyKey });

const linkOf = ({ publicId }: FormV1) => TEMPLATE.replaceAll("{publicId}", `${publicId}`);

describe("guestUrl", () => {
  test("is the operator's template with the form's public id, in every response, and as the setting is now", async () => {
    const stay = uniqueStay(owner.listingId);
    const { json: form } = await create(stay);
    expect(form.guestUrl).toBe(linkOf(form));
    const path = `/v1/forms/${form.id}`;
    const answers = [
      (await create(stay)).json,
      (await send("GET", path)).json,
      (await send("PUT", path, { ...stay, numberOfGuests: 3 })).json,
      ...(await send("GET", "/v1/forms?limit=1")).json.items,
    ];
    expect(answers).toHaveLength(4);
    expect(answers.map(({ guestUrl }) => guestUrl)).toEqual(answers.map(() => linkOf(form)));
    const stored = await services.db.pool.query("SELECT answer FROM creations WHERE form_id = $1", [form.id]);
    expect(JSON.stringify(stored.rows)).not.toContain("stays.example.com");
    const other = await startTestGateway({ DATABASE_URL: services.db.url });
    const replay = await fetch(`${other.url}/v1/forms`, {
      method: "POST",
      headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
      body: JSON.stringify(stay),
    });
    expect(await replay.json()).toEqual({ ...form, guestUrl: null });
  });
});

describe("a 422 IDEMPOTENCY_KEY_REUSED", () => {
  test("has the path of the key's form in Location, unless that form is out of scope now", async () => {
    const stay = uniqueStay(owner.listingId);
    const { json: form } = await create(stay, "k1");
    const reused = await create({ ...stay, numberOfGuests: 9 }, "k1");
    expect([reused.status, reused.json.code]).toEqual([422, "IDEMPOTENCY_KEY_REUSED"]);
    expect(reused.headers.get("location")).toBe(`/v1/forms/${form.id}`);
    expect((await send("GET", reused.headers.get("location") ?? "")).json.id).toBe(form.id);

    const { id: gone } = await owner.addListing();
    const there = uniqueStay(gone);
    const { json: hidden } = await create(there, "k2");
    await services.db.pool.query("DELETE FROM memberships WHERE listing_id = $1", [gone]);
    const unseen = await create(stay, "k2");
    expect([unseen.status, unseen.headers.get("location")]).toEqual([422, null]);
    expect(JSON.stringify(unseen.json)).not.toContain(hidden.id);
  });
});

describe("a create that version 1.0 has stored", () => {
  test("is replayed with the new fields", async () => {
    const stay = uniqueStay(owner.listingId);
    const { json: form } = await create(stay);
    const withoutNew = "UPDATE creations SET answer = answer - 'externalId' WHERE form_id = $1";
    await services.db.pool.query(withoutNew, [form.id]);
    await send("PUT", `/v1/forms/${form.id}`, { ...stay, externalId: "later" });
    expect((await create(stay)).json).toEqual(form);
  });
});

describe("PUT with cancelled", () => {
  test("answers 200 with the cancelled form, and the same again", async () => {
    const stay = uniqueStay(owner.listingId, { externalId: "booking-1" });
    const { json: form } = await create(stay);
    const path = `/v1/forms/${form.id}`;
    const cancelled = await send("PUT", path, { ...stay, cancelled: true });
    expect([cancelled.status, cancelled.json]).toEqual([
      200,
      { ...form, status: "CANCELLED", updatedAt: cancelled.json.updatedAt },
    ]);
    const again = await send("PUT", path, { ...stay, cancelled: true });
    expect([again.status, again.json]).toEqual([200, cancelled.json]);
    const update = await send("PUT", path, stay);
    expect([update.status, update.json.errors]).toEqual([
      400,
      [{ field: "cancelled", issue: expect.stringContaining("the form is cancelled") }],
    ]);
  });

  test("needs a read-write key, and is no property of a create", async () => {
    const stay = uniqueStay(owner.listingId);
    const { json: form } = await create(stay);
    const { key: readOnly } = await makeKey(services, owner.userId, { mode: "READ_ONLY" });
    const headers = { Authorization: `Bearer ${readOnly}` };
    const update = await send("PUT", `/v1/forms/${form.id}`, { ...stay, cancelled: true }, headers);
    expect([update.status, update.json.code]).toEqual([403, "FORBIDDEN"]);
    const created = await create({ ...stay, cancelled: true });
    expect([created.status, created.json.errors]).toEqual([
      400,
      [{ field: "cancelled", issue: "is not a known property" }],
    ]);
  });
});
