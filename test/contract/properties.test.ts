import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { errorFieldsOf } from "../support/response.js";
import { uniqueStay } from "../support/stays.js";
import { anyJunk, anyText, mostlyValid, type Parts } from "./arbitraries.js";
import { startForProperties } from "./property-gateway.js";

const { holder, listingId, foreignId, formId, assertFor } = await startForProperties();

/** Returns the body, and the fields that must be rejected, in order. */
function assemble(parts: Parts): { body: Record<string, unknown>; faults: string[] } {
  const { listingId: listing } = parts;
  const id = listing.isValid ? listingId[listing.value as "toLowerCase"]() : listing.value;
  const body = Object.fromEntries(Object.entries(parts).map(([name, { value }]) => [name, value]));
  body.listingId = id;
  const { checkInDate, checkOutDate } = parts;
  const isReversed =
    checkInDate.isValid &&
    checkOutDate.isValid &&
    Date.parse(String(checkOutDate.value).replace(/(\.\d{3})\d+/, "$1")) <=
      Date.parse(String(checkInDate.value).replace(/(\.\d{3})\d+/, "$1"));
  const faults = Object.entries(parts)
    .filter(([name, part]) => !part.isValid || (isReversed && name === "checkOutDate"))
    .map(([name]) => name);
  return { body, faults };
}

const atUtc = (text: unknown) => new Date(String(text).replace(/(\.\d{3})\d+/, "$1")).toISOString();

function expectFormOf(form: FormV1, body: Record<string, unknown>): void {
  expect(form).toMatchObject({
    listingId,
    checkInDate: atUtc(body.checkInDate),
    checkOutDate: atUtc(body.checkOutDate),
    numberOfGuests: body.numberOfGuests,
    status: "SENT",
    numberOfVehicles: null,
    numberOfPets: null,
  });
}

describe("bodies", () => {
  test("any JSON value as the body of a create is rejected and writes nothing", async () => {
    await assertFor([fc.jsonValue()], async (send, body) => {
      const answer = await send({ method: "POST", body: JSON.stringify(body) });
      expect([400, 413]).toContain(answer.status);
      if (typeof body !== "object" || body === null || Array.isArray(body)) {
        expect(errorFieldsOf(answer)).toEqual(["body"]);
      }
    });
  });

  test("any JSON value as the body of an update is rejected and changes nothing", async () => {
    await assertFor([fc.jsonValue()], async (send, body) => {
      const answer = await send({
        method: "PUT",
        path: `/v1/forms/${formId}`,
        body: JSON.stringify(body),
      });
      expect([400, 413]).toContain(answer.status);
    });
  });

  test("any bytes as a body are rejected and write nothing", async () => {
    await assertFor([fc.uint8Array({ maxLength: 200 }), fc.boolean()], async (send, bytes, chunked) => {
      const answer = await send({ method: "POST", body: Buffer.from(bytes), chunked });
      expect(answer.status).toBe(400);
    });
  });

  test("any additional property of a valid body is rejected by its name", async () => {
    const known = new Set(Object.keys(uniqueStay("")).concat("guestEmail"));
    await assertFor([anyText.filter((name) => !known.has(name)), anyJunk], async (send, name, value) => {
      const body = JSON.stringify(uniqueStay(listingId));
      const property = `${JSON.stringify(name)}:${JSON.stringify(value)}`;
      const answer = await send({
        method: "POST",
        body: body.replace(/\}$/, () => `,${property}}`),
      });
      expect(answer.status).toBe(400);
      expect(errorFieldsOf(answer)).toEqual([name]);
    });
  });

  test("a create is rejected with exactly its invalid fields, or returns what was sent", async () => {
    await assertFor([mostlyValid], async (send, parts) => {
      const { body, faults } = assemble(parts);
      const answer = await send({ method: "POST", body: JSON.stringify(body) });
      expect(errorFieldsOf(answer)).toEqual(faults);
      expect(answer.status).toBe(faults.length > 0 ? 400 : 201);
      if (faults.length > 0) return;
      expectFormOf(answer.json as FormV1, body);
      const { location } = answer.headers;
      expect((await send({ path: String(location) })).json).toEqual(answer.json);
    });
  });

  test("an update is rejected with exactly its invalid fields, or returns what was sent", async () => {
    await assertFor([mostlyValid], async (send, parts) => {
      const { body, faults } = assemble(parts);
      const path = `/v1/forms/${formId}`;
      const answer = await send({ method: "PUT", path, body: JSON.stringify(body) });
      expect(errorFieldsOf(answer)).toEqual(faults);
      expect(answer.status).toBe(faults.length > 0 ? 400 : 200);
      if (faults.length > 0) return;
      expectFormOf(answer.json as FormV1, body);
      expect((await send({ path })).json).toEqual(answer.json);
    });
  });
});

describe("the order of checks", () => {
  const fault = fc.boolean();
  const request = fc.record({
    key: fc.constantFrom("readWrite", "readWrite", "readWrite", "readOnly", "none"),
    path: fault,
    method: fault,
    type: fault,
    encoding: fault,
    size: fault,
    json: fault,
    fields: fault,
    shape: fault,
    header: fault,
    scope: fault,
    rules: fault,
  });
  test("a request with several faults gets the error of the first check that fails", async () => {
    // Few faults per request. Otherwise the first checks would reject nearly all of them.
    const few = request.chain((all) =>
      fc
        .subarray(Object.keys(all) as (keyof typeof all)[], { maxLength: 4 })
        .map((kept) => ({ key: all.key, faults: new Set<string>(kept.filter((name) => name !== "key")) })),
    );
    await assertFor([few], async (send, { key, faults }) => {
      const has = (name: string) => faults.has(name);
      let body = JSON.stringify(
        uniqueStay(has("scope") ? foreignId : listingId, {
          ...(has("rules") && { numberOfGuests: 5 }),
          ...(has("shape") && { checkOutDate: "x" }),
          ...(has("fields") && Object.fromEntries(Array.from({ length: 33 }, (_, n) => [`f${n}`, n]))),
        }),
      );
      if (has("json")) body = body.slice(0, -1);
      if (has("size")) body = body.padEnd(16_385);
      const answer = await send({
        method: has("method") ? "PATCH" : "POST",
        path: has("path") ? "/v1/form" : "/v1/forms",
        key: key === "none" ? null : key === "readOnly" ? holder.readOnlyKey : holder.key,
        headers: {
          ...(has("type") && { "Content-Type": "text/plain" }),
          ...(has("encoding") && { "Content-Encoding": "gzip" }),
          ...(has("header") && { "Idempotency-Key": "" }),
        },
        body,
      });
      const shape = [
        ...(has("shape") ? ["checkOutDate"] : []),
        ...(has("header") ? ["Idempotency-Key"] : []),
      ];
      const expected: [boolean, number, string[]][] = [
        [key === "none", 401, []],
        [has("path"), 404, []],
        [has("method"), 405, []],
        [key === "readOnly", 403, []],
        [has("type"), 415, ["Content-Type"]],
        [has("encoding"), 415, ["Content-Encoding"]],
        [has("size"), 413, []],
        [has("json"), 400, ["body"]],
        [has("fields"), 413, []],
        [shape.length > 0, 400, shape],
        [has("scope"), 404, []],
        [has("rules"), 400, ["numberOfGuests"]],
        [true, 201, []],
      ];
      const [, status, fields] = expected.find(([applies]) => applies) ?? [];
      expect([answer.status, errorFieldsOf(answer)]).toEqual([status, fields]);
    });
  });
});
