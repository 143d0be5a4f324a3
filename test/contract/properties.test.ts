import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { errorCodeOf, errorFieldsOf, type HttpResponse } from "../support/response.js";
import { uniqueStay } from "../support/stays.js";
import { anyHeaderValue, anyJunk, anyText, mostlyValid, type Parts } from "./arbitraries.js";
import { startForProperties } from "./property-gateway.js";

const { gateway, holder, listingId, formId, checkResponse, assertFor } = await startForProperties();

/** Returns the body, and the fields that must be rejected, in order. */
function assemble(parts: Parts): { body: Record<string, unknown>; faults: string[] } {
  const { listingId: listing } = parts;
  const id = listing.isValid ? listingId[listing.value as "toLowerCase"]() : listing.value;
  const body = Object.fromEntries(Object.entries(parts).map(([name, { value }]) => [name, value]));
  body.listingId = id;
  const { checkInDate, checkOutDate } = parts;
  const areDates = checkInDate.isValid && checkOutDate.isValid;
  const isReversed = areDates && atUtc(checkOutDate.value) <= atUtc(checkInDate.value);
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
  const create = { method: "POST", path: "/v1/forms" };
  const update = { method: "PUT", path: `/v1/forms/${formId}` };
  const write = fc.constantFrom(create, update);

  test("any JSON value as a body is rejected and writes nothing", async () => {
    await assertFor([write, fc.jsonValue()], async (send, sent, body) => {
      const answer = await send({ ...sent, body: JSON.stringify(body) });
      expect([400, 413]).toContain(answer.status);
      if (typeof body !== "object" || body === null || Array.isArray(body)) {
        expect(errorFieldsOf(answer)).toEqual(["body"]);
      }
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
      const answer = await send({ method: "POST", body: body.replace(/\}$/, () => `,${property}}`) });
      expect(answer.status).toBe(400);
      expect(errorFieldsOf(answer)).toEqual([name]);
    });
  });

  test("a create or update is rejected with exactly its invalid fields, or returns what was sent", async () => {
    await assertFor([write, mostlyValid], async (send, sent, parts) => {
      const { body, faults } = assemble(parts);
      const answer = await send({ ...sent, body: JSON.stringify(body) });
      expect(errorFieldsOf(answer)).toEqual(faults);
      expect(answer.status).toBe(faults.length > 0 ? 400 : sent === create ? 201 : 200);
      if (faults.length > 0) return;
      expectFormOf(answer.json as FormV1, body);
      expect((await send({ path: answer.headers.location ?? sent.path })).json).toEqual(answer.json);
    });
  });
});

describe("paths", () => {
  test("any unknown path below /v1 is RESOURCE_NOT_FOUND with a key, and UNAUTHENTICATED without", async () => {
    const segment = fc.oneof(
      fc.constantFrom("forms", "FORMS", "listings", "..", "%2e%2e", "", ".", "%", "\\", "v1", "forms%00"),
      fc.string({ unit: fc.integer({ min: 0x22, max: 0xff }).map((n) => String.fromCharCode(n)) }),
    );
    const segments = fc.array(segment, { minLength: 1, maxLength: 4 });
    await assertFor([segments, fc.boolean()], async (send, parts, withKey) => {
      const path = `/v1/${parts.join("/")}`;
      const plain = path.replace(/\?.*/s, "");
      fc.pre(!/^\/v1\/(forms|listings)$/.test(plain));
      const answer = await send({ path, key: withKey ? holder.key : null });
      // The HTTP parser rejects targets that it cannot read.
      if (errorFieldsOf(answer)[0] === "request") return;
      expect(answer.status).toBe(withKey ? 404 : 401);
    });
  });
});

describe("headers", () => {
  /** Sends a request as bytes. */
  async function sendRaw(method: string, headers: string[], body = ""): Promise<HttpResponse> {
    const head = [`${method} /v1/forms HTTP/1.1`, "Host: x", ...headers, "", ""].join("\r\n");
    const [answer] = await gateway.sendRaw(head + body, [method]);
    if (!answer) throw new Error("no answer");
    return checkResponse(answer, method);
  }
  const printable = /^[\x20-\x7e]{1,255}$/;

  test("any bytes as an Idempotency-Key are accepted if they are printable ASCII, and rejected if they are not", async () => {
    await assertFor([anyHeaderValue], async (_send, text) => {
      const body = JSON.stringify(uniqueStay(listingId));
      const headers = [
        `Authorization: Bearer ${holder.key}`,
        "Content-Type: application/json",
        `Content-Length: ${body.length}`,
        `Idempotency-Key:${text}`,
      ];
      const answer = await sendRaw("POST", headers, body);
      const key = text.replace(/^[ \t]+|[ \t]+$/g, "");
      if (printable.test(key)) {
        // An earlier run may have used it with another body.
        expect([201, 422]).toContain(answer.status);
      } else {
        expect(answer.status).toBe(400);
        expect(["Idempotency-Key", "request"]).toContain(errorFieldsOf(answer)[0]);
      }
    });
  });

  test("any bytes as a key are UNAUTHENTICATED, or rejected by the HTTP parser", async () => {
    const name = fc.constantFrom("Authorization: ", "Authorization: Bearer ", "X-API-Key: ");
    const text = fc.oneof(
      anyHeaderValue,
      fc.stringMatching(/^grf_(rw|ro)_[0-9A-Za-z]{49}$/),
      fc.stringMatching(/^grf_rw_[0-9A-Za-z]{40,60}$/),
    );
    await assertFor([name, text], async (_send, header, secret) => {
      const answer = await sendRaw("GET", [header + secret]);
      if (answer.status === 401) expect(errorCodeOf(answer)).toBe("UNAUTHENTICATED");
      else expect([answer.status, errorFieldsOf(answer)]).toEqual([400, ["request"]]);
    });
  });
});
