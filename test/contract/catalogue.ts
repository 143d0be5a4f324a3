import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import type { ErrorCode } from "../../server/errors.js";
import { uniqueStay } from "../gateway-harness.js";

/** The rows that the catalogue's requests speak of; `catalogue.test.ts` makes them. */
export const ID = {
  /** The holder's: takes at most 4. */
  listing: "1a1a1a1a-1111-4111-8111-1a1a1a1a1a1a",
  second: "2b2b2b2b-2222-4222-8222-2b2b2b2b2b2b",
  closed: "3c3c3c3c-3333-4333-8333-3c3c3c3c3c3c",
  /** Another holder's. */
  foreign: "4d4d4d4d-4444-4444-8444-4d4d4d4d4d4d",
  /** Another holder's, on which ours is but a reader. */
  read: "5e5e5e5e-5555-4555-8555-5e5e5e5e5e5e",
  missing: "6f6f6f6f-6666-4666-8666-6f6f6f6f6f6f",
  form: "a1a1a1a1-1111-4111-8111-a1a1a1a1a1a1",
  foreignForm: "a4a4a4a4-4444-4444-8444-a4a4a4a4a4a4",
  readForm: "a5a5a5a5-5555-4555-8555-a5a5a5a5a5a5",
} as const;

/** `{name}` in a header or in raw bytes stands for such a key. */
export type KeyName = "readWrite" | "readOnly" | "neighbor" | "revoked" | "expired" | "unknown" | "mistyped";

/** What an answer must be, exactly; `fields` are those of `errors[]`, in order. */
export interface Expected {
  status: number;
  code?: ErrorCode;
  fields?: string[];
  /** Headers: their text, or null for none. */
  sends?: Record<string, string | null>;
  /** Some of the answer's body. */
  answer?: Record<string, unknown>;
}

export interface Entry extends Expected {
  it: string;
  method?: string;
  /** `/v1/forms` where absent. */
  path?: string;
  /** The read-write key where absent; null for none. */
  key?: KeyName | null;
  headers?: Record<string, string | string[]>;
  body?: unknown;
  chunked?: boolean;
}

/** Bytes for a connection of their own, and the answers to them. */
export interface RawEntry {
  it: string;
  bytes: string | Buffer;
  answers: (Expected & { method?: string })[];
  interim?: number[];
}

const ok: Expected = { status: 200 };
const created: Expected = { status: 201 };
const unauthenticated: Expected = { status: 401, code: "UNAUTHENTICATED" };
const forbidden: Expected = { status: 403, code: "FORBIDDEN" };
const missing: Expected = { status: 404, code: "RESOURCE_NOT_FOUND" };
const noMethod: Expected = { status: 405, code: "RESOURCE_NOT_FOUND" };
const tooLarge: Expected = { status: 413, code: "PAYLOAD_TOO_LARGE" };
const badCursor: Expected = { status: 400, code: "INVALID_CURSOR" };
const reused: Expected = { status: 422, code: "IDEMPOTENCY_KEY_REUSED" };
const faulty =
  (status: number) =>
  (...fields: string[]): Expected => ({ status, code: "VALIDATION_ERROR", fields });
const invalid = faulty(400);
const unsupported = faulty(415);
const refused = (status: number) => faulty(status)("request");

const POST = { method: "POST" } as const;
const PUT = { method: "PUT", path: `/v1/forms/${ID.form}` } as const;

const aStay = (fields: Record<string, unknown> = {}) => uniqueStay(ID.listing, fields);
const json = (fields: Record<string, unknown> = {}) => JSON.stringify(aStay(fields));
/** A create with this in its body, and all else as it should be. */
const post = (fields: Record<string, unknown>) => ({ ...POST, body: aStay(fields) });
/** A body with a further member, written as it is. */
const withMember = (member: string, fields: Record<string, unknown> = {}) =>
  json(fields).replace(/\}$/, () => `,${member}}`);
const padded = (bytes: number) => json().padEnd(bytes, " ");
const counted = (fields: number) =>
  JSON.stringify(Object.fromEntries(Array.from({ length: fields }, (_, n) => [`f${n}`, n])));
const nested = (depth: number) => `{"deep":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`;
const many = (amount: number, name: string) => Array.from({ length: amount }, (_, n) => `${name}${n}`);

/** gateway/docs/contract.md#order-of-checks: each request fails two neighboring checks, and the first one answers. */
const order: Entry[] = [
  { it: "OPTIONS on a known path before the key", method: "OPTIONS", key: null, status: 204 },
  { it: "OPTIONS on a known path before a bad key", method: "OPTIONS", key: "revoked", status: 204 },
  { it: "the key before an unknown path", path: "/v1/nothing", key: null, ...unauthenticated },
  {
    it: "the key before OPTIONS on an unknown path",
    method: "OPTIONS",
    path: "/v1/nothing",
    key: null,
    ...unauthenticated,
  },
  { it: "the key before the method", method: "DELETE", key: null, ...unauthenticated },
  { it: "the key before the body", ...POST, key: null, body: "{", ...unauthenticated },
  { it: "the path before the method", method: "DELETE", path: "/v1/nothing", ...missing },
  { it: "the method before the mode", method: "PATCH", key: "readOnly", body: "{}", ...noMethod },
  {
    it: "the path before the mode",
    method: "PUT",
    path: "/v1/forms/nothing",
    key: "readOnly",
    body: "{}",
    ...missing,
  },
  {
    it: "the mode before the content type",
    ...POST,
    key: "readOnly",
    headers: { "Content-Type": "text/plain" },
    body: "x",
    ...forbidden,
  },
  {
    it: "the mode before the encoding",
    ...POST,
    key: "readOnly",
    headers: { "Content-Encoding": "gzip" },
    body: "x",
    ...forbidden,
  },
  { it: "the mode before the size", ...POST, key: "readOnly", body: padded(16_385), ...forbidden },
  { it: "the mode before an empty body", ...POST, key: "readOnly", ...forbidden },
  {
    it: "the mode before the scope",
    ...PUT,
    path: `/v1/forms/${ID.foreignForm}`,
    key: "readOnly",
    body: aStay(),
    ...forbidden,
  },
  {
    it: "the content type before the size",
    ...POST,
    headers: { "Content-Type": "text/plain" },
    body: padded(16_385),
    ...unsupported("Content-Type"),
  },
  {
    it: "the content type before the encoding",
    ...POST,
    headers: { "Content-Type": "text/plain", "Content-Encoding": "gzip" },
    body: "x",
    ...unsupported("Content-Type"),
  },
  {
    it: "the encoding before the size",
    ...POST,
    headers: { "Content-Encoding": "gzip" },
    body: padded(16_385),
    ...unsupported("Content-Encoding"),
  },
  { it: "the size before JSON", ...POST, body: "{".repeat(16_385), ...tooLarge },
  { it: "JSON before the number of fields", ...POST, body: counted(33).slice(0, -1), ...invalid("body") },
  {
    it: "an object before the number of fields",
    ...POST,
    body: JSON.stringify(many(33, "f")),
    ...invalid("body"),
  },
  { it: "JSON before the depth", ...POST, body: nested(9).slice(0, -1), ...invalid("body") },
  { it: "the number of fields before the shape", ...POST, body: counted(33), ...tooLarge },
  {
    it: "the number of fields before forbidden names",
    ...POST,
    body: `{"__proto__":1,${counted(32).slice(1)}`,
    ...tooLarge,
  },
  {
    it: "the number of fields before the headers",
    ...POST,
    body: counted(33),
    headers: { "Idempotency-Key": "" },
    ...tooLarge,
  },
  { it: "the depth before the shape", ...POST, body: nested(9), ...tooLarge },
  {
    it: "the shape together with the headers",
    ...post({ numberOfGuests: 0 }),
    headers: { "Idempotency-Key": "" },
    ...invalid("numberOfGuests", "Idempotency-Key"),
  },
  { it: "the shape before the cursor", path: "/v1/forms?limit=x&cursor=x", ...invalid("limit") },
  { it: "an unknown parameter before the cursor", path: "/v1/listings?cursor=x&page=2", ...invalid("page") },
  {
    it: "a malformed listingId before the cursor",
    path: "/v1/forms?listingId=x&cursor=x",
    ...invalid("listingId"),
  },
  {
    it: "the cursor before a look at the listingId",
    path: `/v1/forms?cursor=x&listingId=${ID.foreign}`,
    ...badCursor,
  },
  {
    it: "the shape before the scope",
    ...POST,
    body: uniqueStay(ID.foreign, { numberOfGuests: 0 }),
    ...invalid("numberOfGuests"),
  },
  {
    it: "the headers before the scope",
    ...POST,
    body: uniqueStay(ID.foreign),
    headers: { "Idempotency-Key": "" },
    ...invalid("Idempotency-Key"),
  },
  {
    it: "the shape before the scope of an update",
    ...PUT,
    path: `/v1/forms/${ID.foreignForm}`,
    body: aStay({ numberOfGuests: 0 }),
    ...invalid("numberOfGuests"),
  },
  {
    it: "(a create binds the Idempotency-Key “bound”)",
    ...post({}),
    headers: { "Idempotency-Key": "bound" },
    ...created,
    sends: { "idempotent-replayed": null },
  },
  {
    it: "the scope before idempotency",
    ...POST,
    body: uniqueStay(ID.foreign),
    headers: { "Idempotency-Key": "bound" },
    ...missing,
  },
  {
    it: "idempotency before the listing's capacity",
    ...post({ numberOfGuests: 5 }),
    headers: { "Idempotency-Key": "bound" },
    ...reused,
  },
  {
    it: "idempotency before the listing's being active",
    ...POST,
    body: uniqueStay(ID.closed),
    headers: { "Idempotency-Key": "bound" },
    ...reused,
  },
  {
    it: "the scope before the listing's rules",
    ...POST,
    body: uniqueStay(ID.foreign, { numberOfGuests: 5 }),
    ...missing,
  },
  {
    it: "the scope of the form before the rules of the listing",
    ...PUT,
    path: `/v1/forms/${ID.foreignForm}`,
    body: aStay({ numberOfGuests: 5 }),
    ...missing,
  },
];

const paths: Entry[] = [
  ...[
    "/v1",
    "/v1/",
    "/v1?x=1",
    "/V1/forms",
    "/v1/FORMS",
    "/v1/Forms",
    "/v1/form",
    "/v1/forms/",
    "/v1/forms//",
    "/v1//forms",
    "//v1/forms",
    "///v1/forms",
    "/v1\\forms",
    "/v1/./forms",
    "/v1/../v1/forms",
    "/v1/%2e/forms",
    "/v1/%2e%2e/v1/forms",
    "/v1/listings/%2e%2e/forms",
    "/v1/forms%2f",
    "/v1%2fforms",
    "/v1/%66orms",
    "/v1/forms%",
    "/v1/forms/%zz",
    "/v1/forms/%c3%28",
    "/v1/forms%00",
    "/v1/forms;a=b",
    "/v1/forms.json",
    "/v1/forms#top",
    "/v1/listings/",
    "/v1/openapi.json",
    "/v1/internal",
    "/v1/livez",
  ].map((path) => ({ it: `an unknown path: ${path}`, path, ...missing })),
  ...["/V1/forms", "//v1/forms", "/v1\\forms", "/v1", "/v1/", "/v1//forms", "/v1/forms/%zz"].map((path) => ({
    it: `an unknown path asks for the key first: ${path}`,
    path,
    key: null,
    ...unauthenticated,
  })),
  ...[
    "nothing",
    "0",
    ID.form.slice(1),
    `${ID.form}0`,
    ID.form.replaceAll("-", ""),
    `{${ID.form}}`,
    `%7B${ID.form}%7D`,
    `urn:uuid:${ID.form}`,
    ID.form.replace("a", "%61"),
    ID.form.replace("a", "g"),
    ID.form.replaceAll("-", "%2D"),
    `${ID.form}/`,
    `${ID.form}%20`,
    `%20${ID.form}`,
    `${ID.form}%00`,
    `${ID.form}/guests`,
  ].map((id) => ({ it: `a malformed id of a form: ${id}`, path: `/v1/forms/${id}`, ...missing })),
  { it: "a malformed id of a listing", path: "/v1/listings/nothing", ...missing },
  {
    it: "an id in upper case, answered in lower case",
    path: `/v1/forms/${ID.form.toUpperCase()}`,
    ...ok,
    answer: { id: ID.form },
  },
  {
    it: "a listing's id in upper case",
    path: `/v1/listings/${ID.listing.toUpperCase()}`,
    ...ok,
    answer: { id: ID.listing },
  },
  ...[
    { it: "no JSON", body: "{" },
    { it: "no body", body: undefined },
    { it: "text", body: "x", headers: { "Content-Type": "text/plain" } },
    { it: "too much", body: padded(16_385) },
    { it: "a good one", body: aStay() },
  ].map((entry) => ({
    ...entry,
    it: `a malformed id, whatever the body: ${entry.it}`,
    method: "PUT",
    path: "/v1/forms/nothing",
    ...missing,
  })),
];

const FORMS_ALLOW = "POST, GET, HEAD, OPTIONS";
const FORM_ALLOW = "PUT, GET, HEAD, OPTIONS";
const READ_ALLOW = "GET, HEAD, OPTIONS";
const allows: [path: string, allow: string][] = [
  ["/v1/forms", FORMS_ALLOW],
  [`/v1/forms/${ID.form}`, FORM_ALLOW],
  ["/v1/listings", READ_ALLOW],
  [`/v1/listings/${ID.listing}`, READ_ALLOW],
];

const methods: Entry[] = [
  ...allows.flatMap(([path, allow]) =>
    ["POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"]
      .filter((method) => !allow.split(", ").includes(method))
      .map((method) => ({ it: `${method} ${path}`, method, path, ...noMethod, sends: { allow } })),
  ),
  ...allows.flatMap(([path, allow]) => [
    {
      it: `OPTIONS ${path}, without a key`,
      method: "OPTIONS",
      path,
      key: null,
      status: 204,
      sends: { allow },
    },
    { it: `HEAD ${path}`, method: "HEAD", path, status: 200 },
    { it: `HEAD ${path} with a read-only key`, method: "HEAD", path, key: "readOnly" as const, status: 200 },
    { it: `HEAD ${path} without a key`, method: "HEAD", path, key: null, status: 401 },
  ]),
  {
    it: "OPTIONS of a form that does not exist tells no difference",
    method: "OPTIONS",
    path: `/v1/forms/${ID.missing}`,
    key: null,
    status: 204,
    sends: { allow: FORM_ALLOW },
  },
  {
    it: "OPTIONS of a malformed id is an unknown path",
    method: "OPTIONS",
    path: "/v1/forms/nothing",
    ...missing,
  },
  { it: "HEAD of a form that does not exist", method: "HEAD", path: `/v1/forms/${ID.missing}`, status: 404 },
  { it: "HEAD of a list with a bad limit", method: "HEAD", path: "/v1/forms?limit=x", status: 400 },
  {
    it: "a method override is not heeded",
    ...POST,
    headers: { "X-HTTP-Method-Override": "GET" },
    body: "{",
    ...invalid("body"),
  },
  { it: "a body on a GET is not read", body: "{", ...ok },
  { it: "a large body on a GET is not read", body: padded(20_000), ...ok },
  {
    it: "a compressed body on a GET is not read",
    body: gzipSync("{}"),
    headers: { "Content-Encoding": "gzip" },
    ...ok,
  },
  { it: "a read-only key reads a form", path: `/v1/forms/${ID.form}`, key: "readOnly", ...ok },
  { it: "a read-only key reads a listing", path: `/v1/listings/${ID.listing}`, key: "readOnly", ...ok },
  { it: "a read-only key lists listings", path: "/v1/listings", key: "readOnly", ...ok },
  { it: "a read-only key creates nothing", ...POST, key: "readOnly", body: aStay(), ...forbidden },
  { it: "a read-only key updates nothing", ...PUT, key: "readOnly", body: aStay(), ...forbidden },
];

const type = (value: string | string[]) => ({ ...POST, headers: { "Content-Type": value }, body: json() });
const coded = (value: string | string[], body: Buffer | string = json()) => ({
  ...POST,
  headers: { "Content-Encoding": value },
  body,
});

const mediaTypes: Entry[] = [
  ...[
    "application/json",
    "application/json; charset=utf-8",
    "application/json;charset=UTF-8",
    'application/json; charset="UTF-8"',
    'application/json ; charset="utf-8"',
    "Application/JSON; Charset=Utf-8",
    "application/json; profile=x",
  ].map((value) => ({ it: `JSON: ${value}`, ...type(value), ...created })),
  ...[
    "application/json; charset=utf-16",
    "application/json; charset=utf-16le",
    "application/json; charset=utf-7",
    "application/json; charset=iso-8859-1",
    "application/json; charset=us-ascii",
    'application/json; charset=""',
    "application/json; charset=",
    "application/json; charset",
    "application/json;;",
    "application/jsonx",
    "application/json, application/json",
    "application/json application/json",
    "application/x-json",
    "application/xml",
    "application/x-www-form-urlencoded",
    "application",
    "application/",
    "multipart/form-data; boundary=x",
    "text/json",
    "text/plain",
    "json",
    "*/*",
    "",
  ].map((value) => ({ it: `not JSON: “${value}”`, ...type(value), ...unsupported("Content-Type") })),
  { it: "no content type", ...type([]), ...unsupported("Content-Type") },
  { it: "no content type and no body", ...POST, ...unsupported("Content-Type") },
  {
    it: "a content type sent twice",
    ...type(["application/json", "application/json"]),
    ...unsupported("Content-Type"),
  },
  { it: "two content types", ...type(["application/json", "text/plain"]), ...unsupported("Content-Type") },
  {
    it: "an update in text",
    ...PUT,
    headers: { "Content-Type": "text/plain" },
    body: json(),
    ...unsupported("Content-Type"),
  },
  {
    it: "UTF-16 that says so",
    ...POST,
    headers: { "Content-Type": "application/json; charset=utf-16" },
    body: Buffer.from(json(), "utf16le"),
    ...unsupported("Content-Type"),
  },
  { it: "UTF-16 that does not say so", ...POST, body: Buffer.from(json(), "utf16le"), ...invalid("body") },
  { it: "gzip", ...coded("gzip", gzipSync(json())), ...unsupported("Content-Encoding") },
  { it: "deflate", ...coded("deflate", deflateSync(json())), ...unsupported("Content-Encoding") },
  { it: "br", ...coded("br", brotliCompressSync(json())), ...unsupported("Content-Encoding") },
  { it: "gzip in capitals", ...coded("GZIP", gzipSync(json())), ...unsupported("Content-Encoding") },
  { it: "an encoding nobody knows", ...coded("x"), ...unsupported("Content-Encoding") },
  {
    it: "identity and gzip",
    ...coded("identity, gzip", gzipSync(json())),
    ...unsupported("Content-Encoding"),
  },
  {
    it: "identity and gzip in two headers",
    ...coded(["identity", "gzip"], gzipSync(json())),
    ...unsupported("Content-Encoding"),
  },
  { it: "gzip that is not said", ...POST, body: gzipSync(json()), ...invalid("body") },
  {
    it: "a compressed update",
    ...PUT,
    headers: { "Content-Encoding": "gzip" },
    body: gzipSync(json()),
    ...unsupported("Content-Encoding"),
  },
  { it: "identity", ...coded("identity"), ...created },
  { it: "Identity in capitals", ...coded("IDENTITY"), ...created },
  { it: "identity twice", ...coded(["identity", "identity"]), ...created },
];

const sizes: Entry[] = [
  { it: "a body of exactly the limit", ...POST, body: padded(16_384), ...created },
  { it: "a byte more than the limit", ...POST, body: padded(16_385), ...tooLarge },
  { it: "a body of exactly the limit, in chunks", ...POST, body: padded(16_384), chunked: true, ...created },
  { it: "a byte more than the limit, in chunks", ...POST, body: padded(16_385), chunked: true, ...tooLarge },
  { it: "many times the limit", ...POST, body: padded(300_000), ...tooLarge },
  { it: "many times the limit, in chunks", ...POST, body: padded(300_000), chunked: true, ...tooLarge },
  { it: "an update of exactly the limit", ...PUT, body: padded(16_384), ...ok },
  { it: "an update of a byte more", ...PUT, body: padded(16_385), ...tooLarge },
  { it: "bytes count, not characters", ...POST, body: withMember(`"x":"${"é".repeat(8_200)}"`), ...tooLarge },
  { it: "a body in chunks", ...POST, body: json(), chunked: true, ...created },
  {
    it: "exactly 32 fields",
    ...POST,
    body: withMember(
      many(28, "f")
        .map((name) => `"${name}":1`)
        .join(),
    ),
    ...invalid(...many(28, "f")),
  },
  {
    it: "33 fields",
    ...POST,
    body: withMember(
      many(29, "f")
        .map((name) => `"${name}":1`)
        .join(),
    ),
    ...tooLarge,
  },
  {
    it: "32 fields with the elements of an array",
    ...POST,
    body: withMember(`"list":[${many(27, "").join()}]`),
    ...invalid("list"),
  },
  {
    it: "33 fields with the elements of an array",
    ...POST,
    body: withMember(`"list":[${many(28, "").join()}]`),
    ...tooLarge,
  },
  {
    it: "33 fields in objects within objects",
    ...POST,
    body: withMember(`"more":{"list":[${many(26, "").join()}],"x":1}`),
    ...tooLarge,
  },
  { it: "33 fields of an update", ...PUT, body: counted(33), ...tooLarge },
  { it: "a depth of exactly 8", ...POST, body: withMember(nested(8).slice(1, -1)), ...invalid("deep") },
  { it: "a depth of 9", ...POST, body: withMember(nested(9).slice(1, -1)), ...tooLarge },
  {
    it: "a depth of 9 in objects",
    ...POST,
    body: withMember(`"a":${'{"a":'.repeat(7)}{}${"}".repeat(7)}`),
    ...tooLarge,
  },
  { it: "an array 7,000 deep", ...POST, body: withMember(nested(7_000).slice(1, -1)), ...tooLarge },
  { it: "a bare array 7,000 deep", ...POST, body: "[".repeat(7_000) + "]".repeat(7_000), ...invalid("body") },
  {
    it: "an array 7,000 deep that is never closed",
    ...POST,
    body: `{"deep":${"[".repeat(7_000)}`,
    ...invalid("body"),
  },
];

const NUL = String.fromCharCode(0);
const bodies: Entry[] = [
  ...[
    ["empty", ""],
    ["null", "null"],
    ["an array", "[]"],
    ["an array of a good body", `[${json()}]`],
    ["a string", '"x"'],
    ["a number", "1"],
    ["true", "true"],
    ["white space", " \n"],
    ["truncated", json().slice(0, -1)],
    ["truncated in a string", '{"listingId":"'],
    ["with something after it", `${json()}x`],
    ["two objects", `${json()}${json()}`],
    ["two lines of objects", `${json()}\n${json()}`],
    ["with a trailing comma", json().replace(/\}$/, ",}")],
    ["with a comment", `/* x */${json()}`],
    ["in single quotes", json().replaceAll('"', "'")],
    ["with names out of quotes", "{listingId:1}"],
    ["with NaN", withMember('"numberOfGuests":NaN')],
    ["with a leading zero", withMember('"numberOfGuests":02')],
    ["with a hexadecimal number", withMember('"numberOfGuests":0x2')],
    ["with a NUL byte after it", `${json()}${NUL}`],
    ["with a raw NUL in a string", withMember(`"guestEmail":"a${NUL}@example.com"`)],
    ["with a raw line break in a string", withMember('"guestEmail":"a\n@example.com"')],
    ["a form", "listingId=1&numberOfGuests=2"],
    ["two byte order marks", `\ufeff\ufeff${json()}`],
    ["a broken escape", withMember('"guestEmail":"\\u00"')],
  ].map(([it, body]) => ({
    it: `a body that is ${it}`,
    ...POST,
    headers: { "Content-Type": "application/json" },
    body,
    ...invalid("body"),
  })),
  {
    it: "invalid UTF-8",
    ...POST,
    body: Buffer.from(withMember('"guestEmail":"\xff@example.com"'), "latin1"),
    ...invalid("body"),
  },
  {
    it: "overlong UTF-8",
    ...POST,
    body: Buffer.from(withMember('"guestEmail":"\xc0\xaf@example.com"'), "latin1"),
    ...invalid("body"),
  },
  {
    it: "a surrogate in UTF-8",
    ...POST,
    body: Buffer.from(withMember('"guestEmail":"\xed\xa0\x80@example.com"'), "latin1"),
    ...invalid("body"),
  },
  { it: "a byte order mark", ...POST, body: `\ufeff${json()}`, ...created },
  { it: "a byte order mark alone", ...POST, body: "\ufeff", ...invalid("body") },
  { it: "white space around", ...POST, body: `\r\n\t ${json()} \r\n`, ...created },
  { it: "escaped names", ...POST, body: json().replace('"listingId"', '"\\u006cistingId"'), ...created },
  {
    it: "an empty object",
    ...POST,
    body: "{}",
    ...invalid("listingId", "checkInDate", "checkOutDate", "numberOfGuests"),
  },
  {
    it: "an empty object as an update",
    ...PUT,
    body: "{}",
    ...invalid("listingId", "checkInDate", "checkOutDate", "numberOfGuests"),
  },
  {
    it: "an update with an empty body",
    ...PUT,
    headers: { "Content-Type": "application/json" },
    body: "",
    ...invalid("body"),
  },
  { it: "an update with an array", ...PUT, body: "[]", ...invalid("body") },
  {
    it: "of a repeated property the last counts",
    ...POST,
    body: json().replace("{", '{"numberOfGuests":"x",'),
    ...created,
    answer: { numberOfGuests: 2 },
  },
  {
    it: "of a repeated property the last counts, also where it is wrong",
    ...POST,
    body: withMember('"numberOfGuests":0'),
    ...invalid("numberOfGuests"),
  },
  {
    it: "NUL in a listingId",
    ...post({ listingId: `${ID.listing.slice(1)}${NUL}` }),
    ...invalid("listingId"),
  },
  { it: "NUL in an e-mail", ...post({ guestEmail: `a${NUL}@example.com` }), ...invalid("guestEmail") },
  {
    it: "NUL in an instant",
    ...post({ checkInDate: `2031-01-01T00:00:00Z${NUL}` }),
    ...invalid("checkInDate"),
  },
  { it: "NUL in a name", ...post({ [`x${NUL}`]: 1 }), ...invalid(`x${NUL}`) },
  {
    it: "a lone surrogate in an e-mail",
    ...POST,
    body: withMember('"guestEmail":"\\ud800@example.com"'),
    ...invalid("guestEmail"),
  },
  { it: "a lone surrogate in a name", ...POST, body: withMember('"\\udc00":1'), ...invalid("\udc00") },
  { it: "an empty name", ...post({ "": 1 }), ...invalid("") },
  { it: "__proto__", ...POST, body: withMember('"__proto__":{"numberOfGuests":2}'), ...invalid("__proto__") },
  {
    it: "__proto__ with all that is missing",
    ...POST,
    body: `{"__proto__":${json()}}`,
    ...invalid("listingId", "checkInDate", "checkOutDate", "numberOfGuests", "__proto__"),
  },
  { it: "__proto__ that is null", ...POST, body: withMember('"__proto__":null'), ...invalid("__proto__") },
  {
    it: "__proto__ in escapes",
    ...POST,
    body: withMember('"\\u005f\\u005fproto__":1'),
    ...invalid("__proto__"),
  },
  {
    it: "constructor",
    ...POST,
    body: withMember('"constructor":{"prototype":{}}'),
    ...invalid("constructor", "constructor.prototype"),
  },
  { it: "prototype", ...POST, body: withMember('"prototype":1'), ...invalid("prototype") },
  {
    it: "__proto__ within an object",
    ...POST,
    body: withMember('"a":{"b":{"__proto__":1}}'),
    ...invalid("a", "a.b.__proto__"),
  },
  {
    it: "constructor within an array",
    ...POST,
    body: withMember('"a":[[{"constructor":1}]]'),
    ...invalid("a", "a.0.0.constructor"),
  },
  { it: "__proto__ in an update", ...PUT, body: withMember('"__proto__":1'), ...invalid("__proto__") },
  {
    it: "names of an object's own methods",
    ...post({ toString: 1, hasOwnProperty: 1, valueOf: 1 }),
    ...invalid("toString", "hasOwnProperty", "valueOf"),
  },
  { it: "an id in the body of an update", ...PUT, body: aStay({ id: ID.form }), ...invalid("id") },
  { it: "another id in the body of an update", ...PUT, body: aStay({ id: ID.missing }), ...invalid("id") },
  { it: "an id that is null in the body of an update", ...PUT, body: aStay({ id: null }), ...invalid("id") },
  { it: "an id in the body of a create", ...post({ id: ID.missing }), ...invalid("id") },
  { it: "a misspelt guestEmail", ...post({ guestemail: "a@example.com" }), ...invalid("guestemail") },
  {
    it: "what only the answer has",
    ...post({ status: "SENT", publicId: "x", createdAt: "x", numberOfPets: 1 }),
    ...invalid("status", "publicId", "createdAt", "numberOfPets"),
  },
  {
    it: "all faults together, in the table's order",
    ...POST,
    body: { zzz: 1, guestEmail: 1, numberOfGuests: 0, checkOutDate: "x", checkInDate: "x", listingId: "x" },
    ...invalid("listingId", "checkInDate", "checkOutDate", "numberOfGuests", "guestEmail", "zzz"),
  },
  {
    it: "the order of the stay together with the other faults",
    ...post({
      checkInDate: "2031-01-02T00:00:00Z",
      checkOutDate: "2031-01-01T00:00:00Z",
      numberOfGuests: 0,
      listingId: "x",
    }),
    ...invalid("listingId", "checkOutDate", "numberOfGuests"),
  },
];

const listingIds: Entry[] = [
  ...[
    "",
    "x",
    ID.listing.slice(1),
    `${ID.listing} `,
    `{${ID.listing}}`,
    ID.listing.replaceAll("-", ""),
    null,
    1,
    true,
    [ID.listing],
    {},
  ].map((listingId) => ({
    it: `a malformed listingId: ${JSON.stringify(listingId)}`,
    ...post({ listingId }),
    ...invalid("listingId"),
  })),
  {
    it: "a listingId in upper case",
    ...post({ listingId: ID.listing.toUpperCase() }),
    ...created,
    sends: { "idempotent-replayed": null },
  },
  { it: "the listing of another holder", ...POST, body: uniqueStay(ID.foreign), ...missing },
  { it: "a listing on which the holder is a reader", ...POST, body: uniqueStay(ID.read), ...missing },
  { it: "a listing that does not exist", ...POST, body: uniqueStay(ID.missing), ...missing },
  { it: "the nil UUID", ...POST, body: uniqueStay("00000000-0000-0000-0000-000000000000"), ...missing },
  { it: "the max UUID", ...POST, body: uniqueStay("ffffffff-ffff-ffff-ffff-ffffffffffff"), ...missing },
  { it: "an update to the listing of another holder", ...PUT, body: uniqueStay(ID.foreign), ...missing },
  {
    it: "an update to a listing on which the holder is a reader",
    ...PUT,
    body: uniqueStay(ID.read),
    ...missing,
  },
  { it: "an update to a listing that does not exist", ...PUT, body: uniqueStay(ID.missing), ...missing },
  {
    it: "an update of another holder's form",
    ...PUT,
    path: `/v1/forms/${ID.foreignForm}`,
    body: aStay(),
    ...missing,
  },
  {
    it: "an update of a form the holder is a reader of",
    ...PUT,
    path: `/v1/forms/${ID.readForm}`,
    body: aStay(),
    ...missing,
  },
  {
    it: "an update of a form that does not exist",
    ...PUT,
    path: `/v1/forms/${ID.missing}`,
    body: aStay(),
    ...missing,
  },
  { it: "an update by the neighbor", ...PUT, key: "neighbor", body: uniqueStay(ID.foreign), ...missing },
  { it: "a listing that is not active", ...POST, body: uniqueStay(ID.closed), ...invalid("listingId") },
  {
    it: "a listing that is not active and takes fewer",
    ...POST,
    body: uniqueStay(ID.closed, { numberOfGuests: 9 }),
    ...invalid("listingId", "numberOfGuests"),
  },
  {
    it: "a move to a listing that is not active",
    ...PUT,
    body: uniqueStay(ID.closed),
    ...invalid("listingId"),
  },
  { it: "a move to another listing", ...PUT, body: uniqueStay(ID.second), ...ok },
  { it: "a move back", ...PUT, body: aStay(), ...ok },
];

const guests: Entry[] = [
  ...["3", true, null, 2.5, 0, -1, 2_147_483_648, 1e300, "", [], [2], {}].map((numberOfGuests) => ({
    it: `numberOfGuests that is ${JSON.stringify(numberOfGuests)}`,
    ...post({ numberOfGuests }),
    ...invalid("numberOfGuests"),
  })),
  {
    it: "numberOfGuests beyond all numbers",
    ...POST,
    body: withMember('"numberOfGuests":1e400'),
    ...invalid("numberOfGuests"),
  },
  {
    it: "numberOfGuests -0",
    ...POST,
    body: withMember('"numberOfGuests":-0'),
    ...invalid("numberOfGuests"),
  },
  { it: "numberOfGuests 2.0", ...POST, body: withMember('"numberOfGuests":2.0'), ...created },
  { it: "numberOfGuests 20e-1", ...POST, body: withMember('"numberOfGuests":20e-1'), ...created },
  {
    it: "numberOfGuests 1e1, on a listing without a limit",
    ...POST,
    body: withMember(`"numberOfGuests":1e1,"listingId":"${ID.second}"`),
    ...created,
  },
  { it: "as many as the listing takes", ...post({ numberOfGuests: 4 }), ...created },
  { it: "one more than the listing takes", ...post({ numberOfGuests: 5 }), ...invalid("numberOfGuests") },
  {
    it: "an update to one more than the listing takes",
    ...PUT,
    body: aStay({ numberOfGuests: 5 }),
    ...invalid("numberOfGuests"),
  },
  {
    it: "the most there is, on a listing without a limit",
    ...POST,
    body: uniqueStay(ID.second, { numberOfGuests: 2_147_483_647 }),
    ...created,
  },
  { it: "numberOfGuests missing", ...post({ numberOfGuests: undefined }), ...invalid("numberOfGuests") },
];

const instant = (checkInDate: unknown) => ({
  ...post({ checkInDate, checkOutDate: "9999-12-31T23:59:59.999Z" }),
});
const instants: Entry[] = [
  ...[
    "2031-01-01",
    "2031-01-01T15:00Z",
    "2031-01-01T15:00:00",
    "2031-01-01 15:00:00Z",
    "2031-01-01t15:00:00Z",
    "2031-01-01T15:00:00z",
    "2031-01-01T15:00:00+2:00",
    "2031-01-01T15:00:00+0200",
    "2031-01-01T15:00:00+02",
    "2031-01-01T15:00:00+24:00",
    "2031-01-01T15:00:00+02:60",
    "2031-01-01T15:00:00.Z",
    "2031-01-01T15:00:00,5Z",
    "2031-01-01T15:00:00.1234567890Z",
    "2031-02-29T15:00:00Z",
    "2031-02-31T15:00:00Z",
    "2031-04-31T15:00:00Z",
    "2031-13-01T15:00:00Z",
    "2031-00-01T15:00:00Z",
    "2031-01-00T15:00:00Z",
    "2031-01-01T24:00:00Z",
    "2031-01-01T15:60:00Z",
    "2031-12-31T23:59:60Z",
    "2031-W01-1T15:00:00Z",
    "2031-001T15:00:00Z",
    "+002031-01-01T15:00:00Z",
    "31-01-01T15:00:00Z",
    "1969-12-31T23:59:59.999Z",
    "1970-01-01T00:59:59+01:00",
    "9999-12-31T23:59:59-00:01",
    " 2031-01-01T15:00:00Z",
    "2031-01-01T15:00:00Z\n",
    "２031-01-01T15:00:00Z",
    "Thu, 01 Jan 2031 15:00:00 GMT",
    "1924000000",
    "",
    1_924_000_000_000,
    null,
    true,
    ["2031-01-01T15:00:00Z"],
    {},
  ].map((value) => ({
    it: `not an instant: ${JSON.stringify(value)}`,
    ...instant(value),
    ...invalid("checkInDate"),
  })),
  ...(
    [
      ["2031-01-01T15:00:00Z", "2031-01-01T15:00:00.000Z"],
      ["2031-01-01T15:00:00+02:00", "2031-01-01T13:00:00.000Z"],
      ["2031-01-01T00:30:00+05:45", "2030-12-31T18:45:00.000Z"],
      ["2031-01-01T15:00:01-00:00", "2031-01-01T15:00:01.000Z"],
      ["2031-01-01T15:00:02-23:59", "2031-01-02T14:59:02.000Z"],
      ["2031-01-01T15:00:00.5Z", "2031-01-01T15:00:00.500Z"],
      ["2031-01-01T15:00:00.123456789Z", "2031-01-01T15:00:00.123Z"],
      ["2031-01-01T15:00:00.999999999Z", "2031-01-01T15:00:00.999Z"],
      ["2032-02-29T15:00:00Z", "2032-02-29T15:00:00.000Z"],
      ["2000-02-29T15:00:00Z", "2000-02-29T15:00:00.000Z"],
      ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"],
      ["1969-12-31T23:30:00-01:00", "1970-01-01T00:30:00.000Z"],
    ] as const
  ).map(([value, checkInDate]) => ({
    it: `an instant: ${value}`,
    ...instant(value),
    ...created,
    answer: { checkInDate },
  })),
  {
    it: "1900 was no leap year, nor are its days in range",
    ...instant("1900-02-29T15:00:00Z"),
    ...invalid("checkInDate"),
  },
  {
    it: "a check-out at the check-in",
    ...post({ checkInDate: "2031-01-01T15:00:00Z", checkOutDate: "2031-01-01T15:00:00Z" }),
    ...invalid("checkOutDate"),
  },
  {
    it: "a check-out at the check-in, with another offset",
    ...post({ checkInDate: "2031-01-01T15:00:00Z", checkOutDate: "2031-01-01T17:00:00+02:00" }),
    ...invalid("checkOutDate"),
  },
  {
    it: "a check-out before the check-in, by a millisecond",
    ...post({ checkInDate: "2031-01-01T15:00:00.001Z", checkOutDate: "2031-01-01T15:00:00.000Z" }),
    ...invalid("checkOutDate"),
  },
  {
    it: "a check-out that is not after the check-in once it is cut to milliseconds",
    ...post({ checkInDate: "2031-01-01T15:00:00.0001Z", checkOutDate: "2031-01-01T15:00:00.0009Z" }),
    ...invalid("checkOutDate"),
  },
  {
    it: "a check-out after the check-in, by a millisecond",
    ...post({ checkInDate: "2031-01-01T15:00:00.000Z", checkOutDate: "2031-01-01T15:00:00.001Z" }),
    ...created,
  },
  {
    it: "a check-out after the check-in, though its text sorts before",
    ...post({ checkInDate: "2031-01-02T01:00:00+12:00", checkOutDate: "2031-01-01T23:00:00-12:00" }),
    ...created,
  },
  {
    it: "an update with a check-out before the check-in",
    ...PUT,
    body: aStay({ checkInDate: "2031-01-02T15:00:00Z", checkOutDate: "2031-01-01T15:00:00Z" }),
    ...invalid("checkOutDate"),
  },
  { it: "checkInDate missing", ...post({ checkInDate: undefined }), ...invalid("checkInDate") },
  { it: "checkOutDate missing", ...post({ checkOutDate: undefined }), ...invalid("checkOutDate") },
];

const emails: Entry[] = [
  ...[
    "",
    " ",
    "a",
    "a@",
    "@example.com",
    "a@b",
    "a@@example.com",
    "a b@example.com",
    "a@example.com, b@example.com",
    "Ana <a@example.com>",
    "a@example.com\r\nBcc: b@example.com",
    `${"a".repeat(65)}@example.com`,
    `${"a".repeat(60)}@${`${"b".repeat(60)}.`.repeat(4)}com`,
    1,
    true,
    [],
    {},
  ].map((guestEmail) => ({
    it: `not an e-mail: ${JSON.stringify(guestEmail)}`,
    ...post({ guestEmail }),
    ...invalid("guestEmail"),
  })),
  { it: "an e-mail", ...post({ guestEmail: "ana+stay@mail.example.com" }), ...created },
  {
    it: "an e-mail of 254 characters",
    ...post({ guestEmail: `${"a".repeat(64)}@${`${"b".repeat(61)}.`.repeat(3)}de` }),
    ...created,
  },
  { it: "an e-mail that is null", ...post({ guestEmail: null }), ...created },
  { it: "an update with an e-mail", ...PUT, body: aStay({ guestEmail: "ana@example.com" }), ...ok },
];

const keyed = (value: string | string[], fields: Record<string, unknown> = {}) => ({
  ...post(fields),
  headers: { "Idempotency-Key": value },
});
const idempotency: Entry[] = [
  { it: "an Idempotency-Key of one character", ...keyed("1"), ...created },
  { it: "an Idempotency-Key of 255 characters", ...keyed("k".repeat(255)), ...created },
  { it: "an Idempotency-Key of 256 characters", ...keyed("k".repeat(256)), ...invalid("Idempotency-Key") },
  {
    it: "an Idempotency-Key of all that prints",
    ...keyed(String.fromCharCode(...Array.from({ length: 94 }, (_, n) => 33 + n))),
    ...created,
  },
  { it: "an Idempotency-Key with spaces and commas within", ...keyed("stay 1, room 2"), ...created },
  { it: "an empty Idempotency-Key", ...keyed(""), ...invalid("Idempotency-Key") },
  { it: "an Idempotency-Key of spaces", ...keyed("   "), ...invalid("Idempotency-Key") },
  { it: "an Idempotency-Key with Latin-1 bytes", ...keyed("cl\xe9"), ...invalid("Idempotency-Key") },
  {
    it: "an Idempotency-Key with UTF-8 bytes",
    ...keyed(Buffer.from("clé").toString("latin1")),
    ...invalid("Idempotency-Key"),
  },
  { it: "an Idempotency-Key with a tab within", ...keyed("a\tb"), ...invalid("Idempotency-Key") },
  { it: "an Idempotency-Key sent twice", ...keyed(["one", "two"]), ...invalid("Idempotency-Key") },
  { it: "an Idempotency-Key sent twice alike", ...keyed(["same", "same"]), ...invalid("Idempotency-Key") },
  { it: "an Idempotency-Key sent twice, once empty", ...keyed(["same", ""]), ...invalid("Idempotency-Key") },
  {
    it: "a bad Idempotency-Key on an update is ignored",
    ...PUT,
    headers: { "Idempotency-Key": "" },
    body: aStay(),
    ...ok,
  },
  {
    it: "two Idempotency-Keys on an update are ignored",
    ...PUT,
    headers: { "Idempotency-Key": ["one", "two"] },
    body: aStay(),
    ...ok,
  },
  { it: "a bad Idempotency-Key on a GET is ignored", headers: { "Idempotency-Key": "" }, ...ok },
];

const lists: Entry[] = ["/v1/forms", "/v1/listings"].flatMap((path): Entry[] => [
  ...[
    "0",
    "-7",
    "-0",
    "007",
    "1",
    "100",
    "101",
    "100000000000",
    "-100000000000",
    "9".repeat(400),
    `-${"9".repeat(400)}`,
    "%35",
  ].map((limit) => ({ it: `limit=${limit} of ${path}`, path: `${path}?limit=${limit}`, ...ok })),
  ...[
    "",
    "1.5",
    "2.0",
    "1e2",
    "%205",
    "5%20",
    "+5",
    "%2B5",
    "0x10",
    "NaN",
    "Infinity",
    "ten",
    "null",
    "true",
    "1,000",
    "1_000",
    "5;",
    "%00",
    "%zz",
    "--5",
    "٣",
    "5%0A",
    "[5]",
  ].map((limit) => ({
    it: `limit=${limit} of ${path}`,
    path: `${path}?limit=${encodeURI(limit).replaceAll("%25", "%")}`,
    ...invalid("limit"),
  })),
  { it: `limit of ${path} without a value`, path: `${path}?limit`, ...invalid("limit") },
  { it: `limit of ${path} twice`, path: `${path}?limit=5&limit=5`, ...invalid("limit") },
  { it: `limit of ${path} twice, once encoded`, path: `${path}?limit=5&%6cimit=5`, ...invalid("limit") },
  { it: `limit of ${path} twice, once empty`, path: `${path}?limit=5&limit=`, ...invalid("limit") },
  { it: `an encoded name on ${path}`, path: `${path}?%6Cimit=1`, ...ok },
  { it: `an encoded name with a bad value on ${path}`, path: `${path}?%6Cimit=x`, ...invalid("limit") },
  { it: `limit[] of ${path}`, path: `${path}?limit[]=5`, ...invalid("limit[]") },
  { it: `limit[a] of ${path}`, path: `${path}?limit%5Ba%5D=5`, ...invalid("limit[a]") },
  { it: `limit.a of ${path}`, path: `${path}?limit.a=5`, ...invalid("limit.a") },
  { it: `a name in another case on ${path}`, path: `${path}?Limit=5`, ...invalid("Limit") },
  { it: `an unknown parameter of ${path}`, path: `${path}?offset=5`, ...invalid("offset") },
  { it: `unknown parameters of ${path}, all named`, path: `${path}?a=1&b&c=`, ...invalid("a", "b", "c") },
  {
    it: `thousands of unknown parameters of ${path}, of which twenty are named, and what is known`,
    path: `${path}?${many(2_000, "a").join("&")}&limit=x`,
    ...invalid("limit", ...many(20, "a")),
  },
  { it: `an unknown parameter of ${path} twice, named once`, path: `${path}?a=1&a=2`, ...invalid("a") },
  {
    it: `known and unknown faults of ${path} together`,
    path: `${path}?a=1&limit=x`,
    ...invalid("limit", "a"),
  },
  { it: `__proto__ as a parameter of ${path}`, path: `${path}?__proto__=1`, ...invalid("__proto__") },
  {
    it: `__proto__[limit] as a parameter of ${path}`,
    path: `${path}?__proto__[limit]=1`,
    ...invalid("__proto__[limit]"),
  },
  {
    it: `constructor as a parameter of ${path}`,
    path: `${path}?constructor=1&toString=1`,
    ...invalid("constructor", "toString"),
  },
  { it: `a parameter of ${path} without a name`, path: `${path}?=1`, ...invalid("") },
  { it: `an empty query of ${path}`, path: `${path}?`, ...ok },
  { it: `a query of ${path} of nothing but &`, path: `${path}?&&`, ...ok },
  { it: `a second question mark on ${path}`, path: `${path}??limit=5`, ...invalid("?limit") },
  { it: `an empty cursor of ${path}`, path: `${path}?cursor=`, ...badCursor },
  { it: `a cursor of ${path} without a value`, path: `${path}?cursor`, ...badCursor },
  {
    it: `a made-up cursor of ${path}`,
    path: `${path}?cursor=AQAAAZqk3rB7igYvPGpYTVydPi8KbxB7EdKk0m6v2yY1Qh4hX0bq7g`,
    ...badCursor,
  },
  { it: `a cursor of ${path} that is JSON`, path: `${path}?cursor=%7B%22id%22%3A1%7D`, ...badCursor },
  { it: `a cursor of ${path} with NUL`, path: `${path}?cursor=%00`, ...badCursor },
  { it: `a cursor of ${path} sent twice`, path: `${path}?cursor=x&cursor=x`, ...invalid("cursor") },
  { it: `a very long cursor of ${path}`, path: `${path}?cursor=${"A".repeat(10_000)}`, ...badCursor },
]);

const filters: Entry[] = [
  { it: "a listingId in scope", path: `/v1/forms?listingId=${ID.listing}`, ...ok },
  { it: "a listingId in upper case", path: `/v1/forms?listingId=${ID.listing.toUpperCase()}`, ...ok },
  ...[ID.foreign, ID.read, ID.missing].map((id) => ({
    it: `a listingId out of scope: ${id}`,
    path: `/v1/forms?listingId=${id}`,
    ...ok,
    answer: { items: [], nextCursor: null },
  })),
  ...[
    "",
    "x",
    ID.listing.slice(1),
    ID.listing.replaceAll("-", ""),
    `%20${ID.listing}`,
    "%00",
    "null",
    "*",
  ].map((id) => ({
    it: `a malformed listingId: “${id}”`,
    path: `/v1/forms?listingId=${id}`,
    ...invalid("listingId"),
  })),
  { it: "a listingId without a value", path: "/v1/forms?listingId", ...invalid("listingId") },
  {
    it: "a listingId sent twice",
    path: `/v1/forms?listingId=${ID.listing}&listingId=${ID.listing}`,
    ...invalid("listingId"),
  },
  { it: "a misspelt listingId", path: `/v1/forms?listingid=${ID.listing}`, ...invalid("listingid") },
  {
    it: "a listingId of the listings",
    path: `/v1/listings?listingId=${ID.listing}`,
    ...invalid("listingId"),
  },
  {
    it: "a query on a fetch is ignored",
    path: `/v1/forms/${ID.form}?limit=x&id=${ID.missing}&a[]=%zz`,
    ...ok,
  },
  {
    it: "an id in the query of a fetch is ignored",
    path: `/v1/listings/${ID.listing}?id=${ID.foreign}`,
    ...ok,
    answer: { id: ID.listing },
  },
  {
    it: "a query on a create is ignored",
    ...post({}),
    path: `/v1/forms?listingId=${ID.foreign}&cursor=`,
    ...created,
  },
  {
    it: "a query on an update is ignored",
    ...PUT,
    path: `/v1/forms/${ID.form}?id=${ID.missing}`,
    body: aStay(),
    ...ok,
  },
  {
    it: "a query does not stand in for a body",
    ...POST,
    path: `/v1/forms?listingId=${ID.listing}`,
    body: aStay({ listingId: undefined }),
    ...invalid("listingId"),
  },
  ...[ID.foreignForm, ID.readForm, ID.missing].map((id) => ({
    it: `a form out of scope: ${id}`,
    path: `/v1/forms/${id}`,
    ...missing,
  })),
  ...[ID.foreign, ID.read, ID.missing].map((id) => ({
    it: `a listing out of scope: ${id}`,
    path: `/v1/listings/${id}`,
    ...missing,
  })),
  { it: "a form by the id of its listing", path: `/v1/forms/${ID.listing}`, ...missing },
  { it: "a listing by the id of a form", path: `/v1/listings/${ID.form}`, ...missing },
  { it: "a listing that is not active", path: `/v1/listings/${ID.closed}`, ...ok, answer: { active: false } },
];

const withKey = (headers: Record<string, string | string[]>) => ({ key: null, headers }) as const;
const keys: Entry[] = [
  { it: "no key", key: null, ...unauthenticated, sends: { "www-authenticate": "Bearer" } },
  ...["Bearer", "bearer", "BEARER", "bEaReR", "Bearer "].map((scheme) => ({
    it: `the scheme ${scheme}`,
    ...withKey({ Authorization: `${scheme} {readWrite}` }),
    ...ok,
  })),
  { it: "X-API-Key", ...withKey({ "X-API-Key": "{readWrite}" }), ...ok },
  { it: "x-api-key in lower case", ...withKey({ "x-api-key": "{readWrite}" }), ...ok },
  {
    it: "both, equal",
    ...withKey({ Authorization: "Bearer {readWrite}", "X-API-Key": "{readWrite}" }),
    ...ok,
  },
  {
    it: "both, different and good",
    ...withKey({ Authorization: "Bearer {readWrite}", "X-API-Key": "{readOnly}" }),
    ...unauthenticated,
  },
  {
    it: "both, the other holder's",
    ...withKey({ Authorization: "Bearer {neighbor}", "X-API-Key": "{readWrite}" }),
    ...unauthenticated,
  },
  {
    it: "both, one empty",
    ...withKey({ Authorization: "Bearer {readWrite}", "X-API-Key": "" }),
    ...unauthenticated,
  },
  {
    it: "X-API-Key beside an empty Authorization",
    ...withKey({ Authorization: "", "X-API-Key": "{readWrite}" }),
    ...unauthenticated,
  },
  {
    it: "X-API-Key beside Basic",
    ...withKey({ Authorization: "Basic dTpw", "X-API-Key": "{readWrite}" }),
    ...unauthenticated,
  },
  {
    it: "Authorization sent twice, alike",
    ...withKey({ Authorization: ["Bearer {readWrite}", "Bearer {readWrite}"] }),
    ...unauthenticated,
  },
  {
    it: "Authorization sent twice, the second empty",
    ...withKey({ Authorization: ["Bearer {readWrite}", ""] }),
    ...unauthenticated,
  },
  {
    it: "X-API-Key sent twice, alike",
    ...withKey({ "X-API-Key": ["{readWrite}", "{readWrite}"] }),
    ...unauthenticated,
  },
  {
    it: "two keys in one X-API-Key",
    ...withKey({ "X-API-Key": "{readWrite}, {readWrite}" }),
    ...unauthenticated,
  },
  ...[
    "Basic {readWrite}",
    "Token {readWrite}",
    "Bearer",
    "Bearer ",
    "Bearer:{readWrite}",
    "Bearer={readWrite}",
    "Bearer{readWrite}",
    "{readWrite}",
    "Bearer {readWrite} x",
    "Bearer {readWrite},",
    'Bearer "{readWrite}"',
    "Bearer\t{readWrite}",
    "Bearer x",
    "Basic dTpw",
    "",
    "Bearer {readWrite}\xa0",
  ].map((value) => ({
    it: `Authorization: “${value}”`,
    ...withKey({ Authorization: value }),
    ...unauthenticated,
  })),
  ...["", "x", "Bearer {readWrite}", "{readWrite}x", "x{readWrite}", "'{readWrite}'"].map((value) => ({
    it: `X-API-Key: “${value}”`,
    ...withKey({ "X-API-Key": value }),
    ...unauthenticated,
  })),
  ...["key", "api_key", "apiKey", "access_token", "x-api-key", "X-API-Key", "authorization", "token"].map(
    (name) => ({
      it: `the key in the query, as ${name}`,
      path: `/v1/forms?${name}={readWrite}`,
      key: null,
      ...unauthenticated,
    }),
  ),
  {
    it: "the key in a cookie",
    ...withKey({ Cookie: "key={readWrite}; Authorization=Bearer {readWrite}" }),
    ...unauthenticated,
  },
  { it: "the key in the body", ...POST, key: null, body: aStay({ key: "{readWrite}" }), ...unauthenticated },
  { it: "a key with a wrong checksum", key: "mistyped", ...unauthenticated },
  { it: "a key that nobody was given", key: "unknown", ...unauthenticated },
  { it: "a revoked key", key: "revoked", ...unauthenticated },
  { it: "an expired key", key: "expired", ...unauthenticated },
  { it: "a revoked key as X-API-Key", ...withKey({ "X-API-Key": "{revoked}" }), ...unauthenticated },
  { it: "a revoked key on a create", ...POST, key: "revoked", body: aStay(), ...unauthenticated },
  { it: "an expired key on an update", ...PUT, key: "expired", body: aStay(), ...unauthenticated },
  { it: "no key on a listing", path: `/v1/listings/${ID.listing}`, key: null, ...unauthenticated },
  { it: "no key on the listings", path: "/v1/listings", key: null, ...unauthenticated },
  { it: "no key on a form", path: `/v1/forms/${ID.form}`, key: null, ...unauthenticated },
  { it: "no key on an update", ...PUT, key: null, body: aStay(), ...unauthenticated },
];

const reading = { sends: { allow: "GET, HEAD, OPTIONS" } };

const outside: Entry[] = [
  { it: "the root", path: "/", key: null, ...missing },
  { it: "an unknown path outside", path: "/v2/forms", key: null, ...missing },
  { it: "a path that only begins alike", path: "/v1x/forms", key: null, ...missing },
  { it: "metrics are not public", path: "/metrics", key: null, ...missing },
  { it: "the internal procedures are not public", path: "/trpc/keys.list", key: null, ...missing },
  { it: "the documents' own path with a slash", path: "/openapi.json/", key: null, ...missing },
  { it: "livez", path: "/livez", key: null, ...ok, answer: { status: "ok" } },
  { it: "readyz", path: "/readyz", key: null, ...ok, answer: { status: "ok" } },
  ...["/livez", "/readyz", "/openapi.json", "/docs", "/docs/"].flatMap((path) => [
    { it: `OPTIONS on ${path}`, method: "OPTIONS", path, key: null, status: 204, ...reading },
    ...["POST", "PUT", "DELETE", "TRACE"].map((method) => ({
      it: `${method} on ${path}`,
      method,
      path,
      key: null,
      ...noMethod,
      ...reading,
    })),
  ]),
  { it: "livez in capitals", path: "/LIVEZ", key: null, ...missing },
  { it: "livez with a fragment", path: "/livez#top", key: null, ...missing },
  { it: "the document", path: "/openapi.json", key: null, ...ok, answer: { openapi: "3.1.0" } },
];

/** Requests that node's own client can send. */
export const catalogue: Record<string, Entry[]> = {
  "order of checks": order,
  paths,
  methods,
  "content types and encodings": mediaTypes,
  "sizes, fields and depths": sizes,
  bodies,
  "listings of a write": listingIds,
  guests,
  instants,
  "e-mails": emails,
  "Idempotency-Keys": idempotency,
  lists,
  "filters and scope": filters,
  keys,
  outside,
};

const HOST = "Host: forms.example.com";
const AUTH = "Authorization: Bearer {readWrite}";
/** A request as bytes. */
function http(line: string, headers: string[] = [HOST, AUTH], body = ""): string {
  return `${line}\r\n${headers.map((header) => `${header}\r\n`).join("")}\r\n${body}`;
}
const LIST = "GET /v1/forms?limit=1 HTTP/1.1";
const CREATE = "POST /v1/forms HTTP/1.1";
const JSON_TYPE = "Content-Type: application/json";
const sized = (body: string) => `Content-Length: ${Buffer.byteLength(body)}`;
const create = (body: string, headers: string[] = []) =>
  http(CREATE, [HOST, AUTH, JSON_TYPE, sized(body), ...headers], body);
const chunk = (body: string) => `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n`;
const chunkedCreate = (chunks: string) =>
  http(CREATE, [HOST, AUTH, JSON_TYPE, "Transfer-Encoding: chunked"], chunks);
const SAME = json();
const one = (answer: Expected & { method?: string }) => ({ answers: [answer] });

/** What has to be written byte for byte. */
export const rawCatalogue: RawEntry[] = [
  { it: "an absolute target", bytes: http("GET http://forms.example.com/v1/forms HTTP/1.1"), ...one(ok) },
  {
    it: "an absolute target in capitals",
    bytes: http("GET HTTPS://FORMS.EXAMPLE.COM/v1/forms?limit=1 HTTP/1.1"),
    ...one(ok),
  },
  {
    it: "an absolute target of an unknown path",
    bytes: http("GET http://forms.example.com/V1/forms HTTP/1.1"),
    ...one(missing),
  },
  {
    it: "an absolute target without a path",
    bytes: http("GET http://forms.example.com HTTP/1.1"),
    ...one(missing),
  },
  {
    it: "an absolute target without a key",
    bytes: http("GET http://forms.example.com/v1/forms HTTP/1.1", [HOST]),
    ...one(unauthenticated),
  },
  {
    it: "an absolute target whose host looks like a path",
    bytes: http("GET http://v1/forms HTTP/1.1"),
    ...one(missing),
  },
  {
    it: "an absolute target whose host cannot be parsed",
    bytes: http("GET http://[/v1/forms HTTP/1.1"),
    ...one(ok),
  },
  {
    it: "an absolute target whose host cannot be parsed, without a key",
    bytes: http("GET http://[/v1/forms HTTP/1.1", [HOST]),
    ...one(unauthenticated),
  },
  { it: "OPTIONS *", bytes: http("OPTIONS * HTTP/1.1"), ...one(missing) },
  {
    it: "a target that begins with a backslash",
    bytes: http("GET \\v1\\forms HTTP/1.1"),
    ...one(refused(400)),
  },
  { it: "a target without a slash", bytes: http("GET v1/forms HTTP/1.1"), ...one(refused(400)) },
  { it: "HTTP/1.0 without a Host", bytes: http("GET /v1/forms HTTP/1.0", [AUTH]), ...one(ok) },
  { it: "HTTP/1.0 without a key", bytes: http("GET /v1/forms HTTP/1.0", []), ...one(unauthenticated) },
  { it: "HTTP/1.1 without a Host", bytes: http(LIST, [AUTH]), ...one(refused(400)) },
  { it: "two Hosts", bytes: http(LIST, [HOST, HOST, AUTH]), ...one(refused(400)) },
  { it: "HTTP/1.1 without a Host and without a key", bytes: http(LIST, []), ...one(refused(400)) },
  { it: "HTTP/9.9", bytes: http("GET /v1/forms HTTP/9.9"), ...one(refused(400)) },
  { it: "the preface of HTTP/2", bytes: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ...one(refused(400)) },
  { it: "no version, and so no key", bytes: "GET /v1/forms\r\n\r\n", ...one(unauthenticated) },
  { it: "a method in lower case", bytes: http("get /v1/forms HTTP/1.1"), ...one(refused(400)) },
  { it: "a method nobody knows", bytes: http("FETCH /v1/forms HTTP/1.1"), ...one(refused(400)) },
  { it: "a TLS hello", bytes: Buffer.from("16030100c8010000c40303", "hex"), ...one(refused(400)) },
  { it: "a space in the target", bytes: http("GET /v1/for ms HTTP/1.1"), ...one(refused(400)) },
  { it: "a NUL in the target", bytes: http("GET /v1/forms\0 HTTP/1.1"), ...one(refused(400)) },
  { it: "a header without a colon", bytes: http(LIST, [HOST, AUTH, "nonsense"]), ...one(refused(400)) },
  { it: "a space before a header's colon", bytes: http(LIST, [HOST, AUTH, "X-A : b"]), ...one(refused(400)) },
  {
    it: "a control character in a header",
    bytes: http(LIST, [HOST, AUTH, "X-A: \x01"]),
    ...one(refused(400)),
  },
  {
    it: "a control character in an Idempotency-Key",
    bytes: create(json(), ["Idempotency-Key: a\x01b"]),
    ...one(refused(400)),
  },
  {
    it: "a NUL in an Idempotency-Key",
    bytes: create(json(), ["Idempotency-Key: a\0b"]),
    ...one(refused(400)),
  },
  { it: "a NUL in the key", bytes: http(LIST, [HOST, "Authorization: Bearer \0"]), ...one(refused(400)) },
  {
    it: "an Idempotency-Key over two lines",
    bytes: create(json(), ["Idempotency-Key: a\r\n b"]),
    ...one(refused(400)),
  },
  {
    it: "a header of 20,000 bytes",
    bytes: http(LIST, [HOST, AUTH, `X-A: ${"a".repeat(20_000)}`]),
    ...one(refused(431)),
  },
  {
    it: "a target of 20,000 bytes",
    bytes: http(`GET /v1/forms?cursor=${"a".repeat(20_000)} HTTP/1.1`),
    ...one(refused(431)),
  },
  {
    it: "headers of 20,000 bytes together",
    bytes: http(LIST, [HOST, ...Array.from({ length: 200 }, (_, n) => `X-${n}: ${"a".repeat(100)}`)]),
    ...one(refused(431)),
  },
  {
    it: "two Content-Lengths",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Content-Length: 2", "Content-Length: 3"], "{} "),
    ...one(refused(400)),
  },
  {
    it: "two equal Content-Lengths",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Content-Length: 2", "Content-Length: 2"], "{}"),
    ...one(refused(400)),
  },
  {
    it: "a Content-Length beside chunks",
    bytes: http(
      CREATE,
      [HOST, AUTH, JSON_TYPE, "Content-Length: 2", "Transfer-Encoding: chunked"],
      "0\r\n\r\n",
    ),
    ...one(refused(400)),
  },
  ...["-1", "+2", "2.0", "0x2", "two", "2, 2", "99999999999999999999"].map((length) => ({
    it: `Content-Length: ${length}`,
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, `Content-Length: ${length}`], "{}"),
    ...one(refused(400)),
  })),
  {
    it: "a transfer encoding that is not chunked",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Transfer-Encoding: gzip"], "x"),
    ...one(refused(400)),
  },
  {
    it: "chunked that is not the last transfer encoding",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Transfer-Encoding: chunked, gzip"], "0\r\n\r\n"),
    ...one(refused(400)),
  },
  {
    it: "a transfer encoding beside chunked",
    bytes: http(
      CREATE,
      [HOST, AUTH, JSON_TYPE, "Transfer-Encoding: gzip, chunked"],
      `${chunk(json())}0\r\n\r\n`,
    ),
    ...one(unsupported("Transfer-Encoding")),
  },
  {
    it: "Chunked in capitals",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Transfer-Encoding: CHUNKED"], `${chunk(json())}0\r\n\r\n`),
    ...one(created),
  },
  { it: "lines that end in LF alone", bytes: http(LIST).replaceAll("\r\n", "\n"), ...one(refused(400)) },
  { it: "a CR within a header", bytes: http(LIST, [HOST, AUTH, "X-A: a\rb"]), ...one(refused(400)) },
  { it: "a chunk without a size", bytes: chunkedCreate("zz\r\n{}\r\n0\r\n\r\n"), ...one(refused(400)) },
  { it: "a chunk shorter than it says", bytes: chunkedCreate("2\r\n{}x\r\n0\r\n\r\n"), ...one(refused(400)) },
  {
    it: "chunks of a byte",
    bytes: chunkedCreate(`${[...json()].map(chunk).join("")}0\r\n\r\n`),
    ...one(created),
  },
  {
    it: "chunks with extensions and trailers",
    bytes: chunkedCreate(`${chunk(json()).replace("\r\n", ";a=b\r\n")}0\r\nX-Trailer: x\r\n\r\n`),
    ...one(created),
  },
  { it: "no chunks at all", bytes: chunkedCreate("0\r\n\r\n"), ...one(invalid("body")) },
  { it: "a Content-Length of 0", bytes: create(""), ...one(invalid("body")) },
  {
    it: "neither a Content-Length nor chunks",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE]),
    ...one(invalid("body")),
  },
  {
    it: "a Content-Length over the limit, before a byte of the body",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Content-Length: 16385"]),
    ...one(tooLarge),
  },
  {
    it: "a Content-Length of a gigabyte, before a byte of the body",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Content-Length: 1000000000"]),
    ...one(tooLarge),
  },
  {
    it: "chunks over the limit, before the last of them",
    bytes: chunkedCreate(chunk(" ".repeat(16_385))),
    ...one(tooLarge),
  },
  {
    it: "an unknown path with a gigabyte, before a byte of it",
    bytes: http("POST /v1/nothing HTTP/1.1", [HOST, AUTH, "Content-Length: 1000000000"]),
    ...one(missing),
  },
  {
    it: "another method with a gigabyte, before a byte of it",
    bytes: http("DELETE /v1/forms HTTP/1.1", [HOST, AUTH, "Content-Length: 1000000000"]),
    ...one(noMethod),
  },
  {
    it: "a read-only key with a gigabyte, before a byte of it",
    bytes: http(CREATE, [HOST, "X-API-Key: {readOnly}", JSON_TYPE, "Content-Length: 1000000000"]),
    ...one(forbidden),
  },
  {
    it: "text of a gigabyte, before a byte of it",
    bytes: http(CREATE, [HOST, AUTH, "Content-Type: text/plain", "Content-Length: 1000000000"]),
    ...one(unsupported("Content-Type")),
  },
  {
    it: "no key with a gigabyte, before a byte of it",
    bytes: http(CREATE, [HOST, JSON_TYPE, "Content-Length: 1000000000"]),
    ...one(unauthenticated),
  },
  {
    it: "no key with chunks, before the last of them",
    bytes: http(CREATE, [HOST, JSON_TYPE, "Transfer-Encoding: chunked"], chunk("{")),
    ...one(unauthenticated),
  },
  {
    it: "a GET with a gigabyte, before a byte of it",
    bytes: http(LIST, [HOST, AUTH, "Content-Length: 1000000000"]),
    ...one(ok),
  },
  {
    it: "an Expect that nobody knows",
    bytes: http(CREATE, [HOST, AUTH, "Expect: something"]),
    ...one(refused(417)),
  },
  {
    it: "an Expect that nobody knows, without a key",
    bytes: http(LIST, [HOST, "Expect: something"]),
    ...one(refused(417)),
  },
  {
    it: "Expect: 100-continue without a key, which is not told to continue",
    bytes: http(CREATE, [HOST, JSON_TYPE, "Content-Length: 100", "Expect: 100-continue"]),
    ...one(unauthenticated),
  },
  {
    it: "Expect: 100-continue of too much, which is not told to continue",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Content-Length: 16385", "Expect: 100-continue"]),
    ...one(tooLarge),
  },
  {
    it: "Expect: 100-continue of another type, which is not told to continue",
    bytes: http(CREATE, [HOST, AUTH, "Content-Length: 2", "Expect: 100-continue"]),
    ...one(unsupported("Content-Type")),
  },
  {
    it: "Expect: 100-continue in HTTP/1.0, which knows no interim answers",
    bytes: create(json(), ["Expect: 100-continue"]).replace("HTTP/1.1", "HTTP/1.0"),
    ...one(created),
  },
  {
    it: "Expect: 100-continue of a GET",
    bytes: http(LIST, [HOST, AUTH, "Expect: 100-continue"]),
    ...one(ok),
  },
  {
    it: "Expect: 100-continue",
    bytes: create(json(), ["Expect: 100-continue"]),
    ...one(created),
    interim: [100],
  },
  { it: "CONNECT", bytes: http("CONNECT forms.example.com:443 HTTP/1.1"), ...one(refused(400)) },
  {
    it: "an upgrade that is not taken up",
    bytes: http(LIST, [HOST, AUTH, "Connection: Upgrade", "Upgrade: websocket"]),
    ...one(ok),
  },
  {
    it: "an upgrade to HTTP/2 that is not taken up",
    bytes: http(LIST, [
      HOST,
      AUTH,
      "Connection: Upgrade, HTTP2-Settings",
      "Upgrade: h2c",
      "HTTP2-Settings: AAMAAABkAAQAAP__",
    ]),
    ...one(ok),
  },
  { it: "an empty line before the request", bytes: `\r\n${http(LIST)}`, ...one(ok) },
  {
    it: "three requests at once, answered in their order",
    bytes:
      http(LIST) + http("GET /v1/nothing HTTP/1.1") + http("HEAD /v1/listings HTTP/1.1") + http(LIST, [HOST]),
    answers: [ok, missing, { ...ok, method: "HEAD" }, unauthenticated],
  },
  { it: "two creates at once", bytes: create(json()) + create(json()), answers: [created, created] },
  {
    it: "the same create twice at once",
    bytes: create(SAME) + create(SAME),
    answers: [created, created],
  },
  {
    it: "a request after one whose body was not read",
    bytes: http(CREATE, [HOST, JSON_TYPE, sized(json())], json()) + http(LIST),
    answers: [unauthenticated, ok],
  },
  {
    it: "a request after one of another type",
    bytes: create("x").replace("application/json", "text/plain") + http(LIST),
    answers: [unsupported("Content-Type"), ok],
  },
  {
    it: "a request after one that was too large",
    bytes: create(padded(16_385)) + http(LIST),
    answers: [tooLarge, ok],
  },
  {
    it: "a request after one that was too large in chunks",
    bytes: chunkedCreate(`${chunk(padded(16_385))}${chunk(padded(100_000))}0\r\n\r\n`) + http(LIST),
    answers: [tooLarge, ok],
  },
  {
    it: "a create and then what is not HTTP",
    bytes: `${create(json())}nonsense\r\n\r\n`,
    answers: [created, refused(400)],
  },
  {
    it: "two creates and then what is not HTTP",
    bytes: `${create(json())}${create(json())}nonsense\r\n\r\n`,
    answers: [created, created, refused(400)],
  },
  {
    it: "a create and then an Expect that nobody knows",
    bytes: create(json()) + http(LIST, [HOST, AUTH, "Expect: something"]),
    answers: [created, refused(417)],
  },
  {
    it: "a create and then CONNECT",
    bytes: create(json()) + http("CONNECT forms.example.com:443 HTTP/1.1"),
    answers: [created, refused(400)],
  },
  {
    it: "a create and then headers too large",
    bytes: create(json()) + http(LIST, [HOST, AUTH, `X-A: ${"a".repeat(20_000)}`]),
    answers: [created, refused(431)],
  },
  {
    it: "a request after a GET with a body",
    bytes: http(LIST, [HOST, AUTH, "Content-Length: 2"], "{}") + http(LIST),
    answers: [ok, ok],
  },
  {
    it: "a request after a HEAD without a key",
    bytes: http("HEAD /v1/forms HTTP/1.1", [HOST]) + http(LIST),
    answers: [{ status: 401, method: "HEAD" }, ok],
  },
];
