import { randomInt } from "node:crypto";
import fc from "fast-check";
import { beforeAll, describe, expect, test, vi } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { isUuid } from "../../server/values.js";
import { makeForm, makeListing } from "../support/factories.js";
import { type HttpRequest, type KeyHolder, startTestGateway } from "../support/gateway.js";
import { errorCodeOf, errorFieldsOf, type HttpResponse } from "../support/response.js";
import { uniqueStay } from "../support/stays.js";
import {
  anyHeaders,
  anyHeaderValue,
  anyJunk,
  anyText,
  encodeForUrl,
  mostlyValid,
  type Parts,
} from "./arbitraries.js";

const numRuns = Number(process.env.FAST_CHECK_RUNS ?? 25);
const seed = Number(process.env.FAST_CHECK_SEED ?? randomInt(2 ** 31));
// A failure prints its seed too, and its path.
console.log(`Properties: ${numRuns} runs each. To repeat them: FAST_CHECK_SEED=${seed}`);
fc.configureGlobal({ numRuns, seed });
vi.setConfig({ testTimeout: 60_000 + 300 * numRuns });

const gateway = await startTestGateway();
let holder: KeyHolder;
/** Allows at most 4 guests. */
let listingId: string;
let foreignId: string;
let formId: string;
/** Snapshot of all rows after the last request. */
let rows: Record<string, string>;

beforeAll(async () => {
  const services = await gateway.services();
  holder = await gateway.addKeyHolder();
  const neighbor = await gateway.addKeyHolder();
  listingId = (await makeListing(services, holder.userId, { maxPeopleInListing: 4 })).id;
  foreignId = (await makeListing(services, neighbor.userId)).id;
  formId = (await makeForm(services, holder.userId, listingId)).id;
  await makeForm(services, holder.userId, listingId);
  rows = await gateway.snapshotTables();
});

type Send = (sent: Partial<HttpRequest>) => Promise<HttpResponse>;

const send: Send = (sent) => gateway.request({ path: "/v1/forms", key: holder.key, ...sent });

let requests = 0;

type Headers = typeof anyHeaders extends fc.Arbitrary<infer Value> ? Value : never;

/** Sends with other headers, which must not matter. A response must not be a server error, and write nothing if it is an error. */
const sendWith =
  ({ key, contentType, idempotencyKey, other }: Headers): Send =>
  async (sent) => {
    const secret = sent.key === undefined ? holder.key : sent.key;
    const answer = await send({
      ...sent,
      key: null,
      headers: {
        ...other,
        ...(secret !== null && key(secret)),
        ...(sent.body !== undefined && { "Content-Type": contentType }),
        // Unique: a create with the key of another body is rejected.
        ...(idempotencyKey !== null && { "Idempotency-Key": `${++requests}:${idempotencyKey}` }),
        ...sent.headers,
      },
    });
    return checkResponse(answer, sent.method ?? "GET");
  };
/** Checks a property for values of the arbitraries, each with its own headers. */
const assertFor = <Values extends unknown[]>(
  arbitraries: { [Index in keyof Values]: fc.Arbitrary<Values[Index]> },
  check: (send: Send, ...values: Values) => Promise<void>,
) =>
  fc.assert(
    fc.asyncProperty(anyHeaders, fc.tuple<Values>(...arbitraries), (headers, values) =>
      check(sendWith(headers), ...values),
    ),
  );

async function checkResponse(answer: HttpResponse, method: string): Promise<HttpResponse> {
  expect(answer.status).toBeLessThan(500);
  const before = rows;
  rows = await gateway.snapshotTables();
  if (answer.status >= 400 || method === "GET" || method === "HEAD") expect(rows).toEqual(before);
  return answer;
}

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

describe("paths and queries", () => {
  const lists = fc.constantFrom("/v1/forms", "/v1/listings");

  test("any text as a cursor is INVALID_CURSOR", async () => {
    await assertFor([lists, fc.oneof(anyText, fc.base64String())], async (send, path, text) => {
      const answer = await send({ path: `${path}?cursor=${encodeForUrl(text)}` });
      expect([answer.status, errorCodeOf(answer)]).toEqual([400, "INVALID_CURSOR"]);
    });
  });

  test("a cursor that was altered, cut or extended anywhere is INVALID_CURSOR", async () => {
    const first = await send({ path: "/v1/forms?limit=1" });
    const { nextCursor } = first.json as { nextCursor: string };
    expect((await send({ path: `/v1/forms?cursor=${nextCursor}` })).status).toBe(200);
    const alteration = fc.oneof(
      fc.record({ at: fc.nat(nextCursor.length - 1), character: fc.stringMatching(/^[\w-]$/) }),
      fc.record({ to: fc.nat(nextCursor.length - 1) }),
      fc.record({ tail: fc.stringMatching(/^[\w=.-]{1,8}$/) }),
      fc.record({ head: fc.stringMatching(/^[\w-]{1,8}$/) }),
    );
    await assertFor([alteration], async (send, change) => {
      const altered =
        "at" in change
          ? nextCursor.slice(0, change.at) + change.character + nextCursor.slice(change.at + 1)
          : "to" in change
            ? nextCursor.slice(0, change.to)
            : "tail" in change
              ? nextCursor + change.tail
              : change.head + nextCursor;
      fc.pre(altered !== nextCursor);
      const answer = await send({ path: `/v1/forms?cursor=${encodeForUrl(altered)}` });
      expect(errorCodeOf(answer)).toBe("INVALID_CURSOR");
    });
  });

  test("any text as an id is RESOURCE_NOT_FOUND, for reads and for writes", async () => {
    const resource = fc.constantFrom("forms", "listings");
    await assertFor(
      [resource, fc.oneof(anyText, fc.uuid()), fc.boolean()],
      async (send, name, id, writes) => {
        const sent = writes ? { method: "PUT", body: uniqueStay(listingId) } : {};
        // An empty id leaves a trailing slash.
        const answer = await send({ ...sent, path: `/v1/${name}/${encodeForUrl(id)}` });
        const known = isUuid(id) && writes && name === "listings";
        expect(answer.status).toBe(known ? 405 : 404);
        expect(errorCodeOf(answer)).toBe("RESOURCE_NOT_FOUND");
      },
    );
  });

  test("any text as a limit is clamped if it is an integer, and rejected if it is not", async () => {
    const limit = fc.oneof(
      anyText,
      fc.integer().map(String),
      fc.double().map(String),
      fc.bigInt().map(String),
    );
    await assertFor([lists, limit], async (send, path, text) => {
      const answer = await send({ path: `${path}?limit=${encodeForUrl(text)}` });
      if (!/^-?\d+$/.test(text)) {
        expect([answer.status, errorFieldsOf(answer)]).toEqual([400, ["limit"]]);
        return;
      }
      expect(answer.status).toBe(200);
      const most = Math.min(Math.max(Number(text), 1), 100);
      expect((answer.json as { items: unknown[] }).items.length).toBeLessThanOrEqual(most);
    });
  });

  test("any query is answered, or rejected by the names of its parameters", async () => {
    const visible = fc.string({
      unit: fc.integer({ min: 0x21, max: 0xff }).map((n) => String.fromCharCode(n)),
    });
    const query = fc.oneof(
      visible,
      fc.webQueryParameters(),
      fc
        .array(fc.tuple(fc.constantFrom("limit", "cursor", "listingId", "[]", "&", "%"), visible))
        .map((pairs) => pairs.map(([name, value]) => `${name}=${value}`).join("&")),
    );
    await assertFor([lists, query], async (send, path, text) => {
      const answer = await send({ path: `${path}?${text}` });
      expect([200, 400]).toContain(answer.status);
      if (errorCodeOf(answer) !== "VALIDATION_ERROR") return;
      const names = ["request", ...new URLSearchParams(`?${text}`).keys()];
      for (const field of errorFieldsOf(answer)) expect(names).toContain(field);
    });
  });

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
  const head = (line: string, headers: string[]) => [line, "Host: x", ...headers, "", ""].join("\r\n");
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
      const [answer] = await gateway.sendRaw(head("POST /v1/forms HTTP/1.1", headers) + body, ["POST"]);
      if (!answer) throw new Error("no answer");
      await checkResponse(answer, "POST");
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
      const [answer] = await gateway.sendRaw(head("GET /v1/forms HTTP/1.1", [header + secret]));
      if (!answer) throw new Error("no answer");
      await checkResponse(answer, "GET");
      if (answer.status === 401) expect(errorCodeOf(answer)).toBe("UNAUTHENTICATED");
      else expect([answer.status, errorFieldsOf(answer)]).toEqual([400, ["request"]]);
    });
  });

  test("a key that is wrong in one character is UNAUTHENTICATED", async () => {
    await assertFor(
      [fc.nat(holder.key.length - 1), fc.stringMatching(/^[0-9A-Za-z_]$/)],
      async (send, at, character) => {
        const key = holder.key.slice(0, at) + character + holder.key.slice(at + 1);
        fc.pre(key !== holder.key);
        expect((await send({ key })).status).toBe(401);
      },
    );
  });

  test("any Content-Type other than application/json is rejected and writes nothing", async () => {
    await assertFor(
      [fc.stringMatching(/^[!-~][ -~]{0,60}$/).filter((text) => !/^application\/json *(;|$)/i.test(text))],
      async (send, type) => {
        const answer = await send({
          method: "POST",
          headers: { "Content-Type": type },
          body: JSON.stringify(uniqueStay(listingId)),
        });
        expect([answer.status, errorFieldsOf(answer)]).toEqual([415, ["Content-Type"]]);
      },
    );
  });
});
