import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import type { ErrorCode } from "../../server/errors.js";
import { uniqueStay } from "../gateway-harness.js";

/** The rows that the requests name. `request-catalog.test.ts` creates them. */
export const ID = {
  /** The holder's. Allows at most 4 guests. */
  listing: "1a1a1a1a-1111-4111-8111-1a1a1a1a1a1a",
  secondListing: "2b2b2b2b-2222-4222-8222-2b2b2b2b2b2b",
  inactiveListing: "3c3c3c3c-3333-4333-8333-3c3c3c3c3c3c",
  /** Another holder's. */
  otherHolderListing: "4d4d4d4d-4444-4444-8444-4d4d4d4d4d4d",
  /** Another holder's, on which the holder is a reader. */
  readerListing: "5e5e5e5e-5555-4555-8555-5e5e5e5e5e5e",
  missing: "6f6f6f6f-6666-4666-8666-6f6f6f6f6f6f",
  form: "a1a1a1a1-1111-4111-8111-a1a1a1a1a1a1",
  otherHolderForm: "a4a4a4a4-4444-4444-8444-a4a4a4a4a4a4",
  readerForm: "a5a5a5a5-5555-4555-8555-a5a5a5a5a5a5",
} as const;

/** `{name}` in a header or in raw bytes is replaced by this key. */
export type KeyName =
  | "readWrite"
  | "readOnly"
  | "otherHolder"
  | "revoked"
  | "expired"
  | "unknown"
  | "mistyped";

/** The exact response; `fields` are those of `errors[]`, in order. */
export interface Expected {
  status: number;
  code?: ErrorCode;
  fields?: string[];
  /** Values of headers; null if the header must be absent. */
  responseHeaders?: Record<string, string | null>;
  /** Part of the response body. */
  responseBody?: Record<string, unknown>;
}

export interface RequestCase extends Expected {
  name: string;
  method?: string;
  /** Default: `/v1/forms`. */
  path?: string;
  /** Default: the read-write key. Null sends none. */
  key?: KeyName | null;
  headers?: Record<string, string | string[]>;
  body?: unknown;
  chunked?: boolean;
}

/** Bytes for a new connection, and the responses to them. */
export interface RawRequestCase {
  name: string;
  bytes: string | Buffer;
  responses: (Expected & { method?: string })[];
  interim?: number[];
}

const ok: Expected = { status: 200 };
const created: Expected = { status: 201 };
const unauthenticated: Expected = { status: 401, code: "UNAUTHENTICATED" };
const forbidden: Expected = { status: 403, code: "FORBIDDEN" };
const notFound: Expected = { status: 404, code: "RESOURCE_NOT_FOUND" };
const methodNotAllowed: Expected = { status: 405, code: "RESOURCE_NOT_FOUND" };
const tooLarge: Expected = { status: 413, code: "PAYLOAD_TOO_LARGE" };
const badCursor: Expected = { status: 400, code: "INVALID_CURSOR" };
const reused: Expected = { status: 422, code: "IDEMPOTENCY_KEY_REUSED" };
const validationError =
  (status: number) =>
  (...fields: string[]): Expected => ({ status, code: "VALIDATION_ERROR", fields });
const invalid = validationError(400);
const unsupported = validationError(415);
const malformedRequest = (status: number) => validationError(status)("request");

const POST = { method: "POST" } as const;
const PUT = { method: "PUT", path: `/v1/forms/${ID.form}` } as const;

const newStay = (fields: Record<string, unknown> = {}) => uniqueStay(ID.listing, fields);
const json = (fields: Record<string, unknown> = {}) => JSON.stringify(newStay(fields));
/** A valid create except for these properties. */
const post = (fields: Record<string, unknown>) => ({ ...POST, body: newStay(fields) });
/** A body with one more property, as JSON text. */
const withProperty = (property: string, fields: Record<string, unknown> = {}) =>
  json(fields).replace(/\}$/, () => `,${property}}`);
const bodyOfBytes = (bytes: number) => json().padEnd(bytes, " ");
const bodyOfFields = (fields: number) =>
  JSON.stringify(Object.fromEntries(Array.from({ length: fields }, (_, n) => [`f${n}`, n])));
const bodyOfDepth = (depth: number) => `{"deep":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`;
const numberedNames = (amount: number, name: string) =>
  Array.from({ length: amount }, (_, n) => `${name}${n}`);

/** gateway/docs/contract.md#order-of-checks: each request fails two neighboring checks, and the first one answers. */
const order: RequestCase[] = [
  { name: "OPTIONS on a known path before the key", method: "OPTIONS", key: null, status: 204 },
  { name: "OPTIONS on a known path before a bad key", method: "OPTIONS", key: "revoked", status: 204 },
  { name: "the key before an unknown path", path: "/v1/nothing", key: null, ...unauthenticated },
  {
    name: "the key before OPTIONS on an unknown path",
    method: "OPTIONS",
    path: "/v1/nothing",
    key: null,
    ...unauthenticated,
  },
  { name: "the key before the method", method: "DELETE", key: null, ...unauthenticated },
  { name: "the key before the body", ...POST, key: null, body: "{", ...unauthenticated },
  { name: "the path before the method", method: "DELETE", path: "/v1/nothing", ...notFound },
  { name: "the method before the mode", method: "PATCH", key: "readOnly", body: "{}", ...methodNotAllowed },
  {
    name: "the path before the mode",
    method: "PUT",
    path: "/v1/forms/nothing",
    key: "readOnly",
    body: "{}",
    ...notFound,
  },
  {
    name: "the mode before the content type",
    ...POST,
    key: "readOnly",
    headers: { "Content-Type": "text/plain" },
    body: "x",
    ...forbidden,
  },
  {
    name: "the mode before the encoding",
    ...POST,
    key: "readOnly",
    headers: { "Content-Encoding": "gzip" },
    body: "x",
    ...forbidden,
  },
  { name: "the mode before the size", ...POST, key: "readOnly", body: bodyOfBytes(16_385), ...forbidden },
  { name: "the mode before an empty body", ...POST, key: "readOnly", ...forbidden },
  {
    name: "the mode before the scope",
    ...PUT,
    path: `/v1/forms/${ID.otherHolderForm}`,
    key: "readOnly",
    body: newStay(),
    ...forbidden,
  },
  {
    name: "the content type before the size",
    ...POST,
    headers: { "Content-Type": "text/plain" },
    body: bodyOfBytes(16_385),
    ...unsupported("Content-Type"),
  },
  {
    name: "the content type before the encoding",
    ...POST,
    headers: { "Content-Type": "text/plain", "Content-Encoding": "gzip" },
    body: "x",
    ...unsupported("Content-Type"),
  },
  {
    name: "the encoding before the size",
    ...POST,
    headers: { "Content-Encoding": "gzip" },
    body: bodyOfBytes(16_385),
    ...unsupported("Content-Encoding"),
  },
  { name: "the size before JSON", ...POST, body: "{".repeat(16_385), ...tooLarge },
  {
    name: "JSON before the number of fields",
    ...POST,
    body: bodyOfFields(33).slice(0, -1),
    ...invalid("body"),
  },
  {
    name: "an object before the number of fields",
    ...POST,
    body: JSON.stringify(numberedNames(33, "f")),
    ...invalid("body"),
  },
  { name: "JSON before the depth", ...POST, body: bodyOfDepth(9).slice(0, -1), ...invalid("body") },
  { name: "the number of fields before the shape", ...POST, body: bodyOfFields(33), ...tooLarge },
  {
    name: "the number of fields before forbidden names",
    ...POST,
    body: `{"__proto__":1,${bodyOfFields(32).slice(1)}`,
    ...tooLarge,
  },
  {
    name: "the number of fields before the headers",
    ...POST,
    body: bodyOfFields(33),
    headers: { "Idempotency-Key": "" },
    ...tooLarge,
  },
  { name: "the depth before the shape", ...POST, body: bodyOfDepth(9), ...tooLarge },
  {
    name: "the shape together with the headers",
    ...post({ numberOfGuests: 0 }),
    headers: { "Idempotency-Key": "" },
    ...invalid("numberOfGuests", "Idempotency-Key"),
  },
  { name: "the shape before the cursor", path: "/v1/forms?limit=x&cursor=x", ...invalid("limit") },
  {
    name: "an unknown parameter before the cursor",
    path: "/v1/listings?cursor=x&page=2",
    ...invalid("page"),
  },
  {
    name: "a malformed listingId before the cursor",
    path: "/v1/forms?listingId=x&cursor=x",
    ...invalid("listingId"),
  },
  {
    name: "the cursor before the scope of listingId",
    path: `/v1/forms?cursor=x&listingId=${ID.otherHolderListing}`,
    ...badCursor,
  },
  {
    name: "the shape before the scope",
    ...POST,
    body: uniqueStay(ID.otherHolderListing, { numberOfGuests: 0 }),
    ...invalid("numberOfGuests"),
  },
  {
    name: "the headers before the scope",
    ...POST,
    body: uniqueStay(ID.otherHolderListing),
    headers: { "Idempotency-Key": "" },
    ...invalid("Idempotency-Key"),
  },
  {
    name: "the shape before the scope of an update",
    ...PUT,
    path: `/v1/forms/${ID.otherHolderForm}`,
    body: newStay({ numberOfGuests: 0 }),
    ...invalid("numberOfGuests"),
  },
  {
    name: "setup: a create with the Idempotency-Key “bound”",
    ...post({}),
    headers: { "Idempotency-Key": "bound" },
    ...created,
    responseHeaders: { "idempotent-replayed": null },
  },
  {
    name: "the scope before idempotency",
    ...POST,
    body: uniqueStay(ID.otherHolderListing),
    headers: { "Idempotency-Key": "bound" },
    ...notFound,
  },
  {
    name: "idempotency before the listing's capacity",
    ...post({ numberOfGuests: 5 }),
    headers: { "Idempotency-Key": "bound" },
    ...reused,
  },
  {
    name: "idempotency before the inactive listing",
    ...POST,
    body: uniqueStay(ID.inactiveListing),
    headers: { "Idempotency-Key": "bound" },
    ...reused,
  },
  {
    name: "the scope before the listing's rules",
    ...POST,
    body: uniqueStay(ID.otherHolderListing, { numberOfGuests: 5 }),
    ...notFound,
  },
  {
    name: "the scope of the form before the rules of the listing",
    ...PUT,
    path: `/v1/forms/${ID.otherHolderForm}`,
    body: newStay({ numberOfGuests: 5 }),
    ...notFound,
  },
];

const paths: RequestCase[] = [
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
  ].map((path) => ({ name: `an unknown path: ${path}`, path, ...notFound })),
  ...["/V1/forms", "//v1/forms", "/v1\\forms", "/v1", "/v1/", "/v1//forms", "/v1/forms/%zz"].map((path) => ({
    name: `an unknown path asks for the key first: ${path}`,
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
  ].map((id) => ({ name: `a malformed id of a form: ${id}`, path: `/v1/forms/${id}`, ...notFound })),
  { name: "a malformed id of a listing", path: "/v1/listings/nothing", ...notFound },
  {
    name: "an id in upper case, answered in lower case",
    path: `/v1/forms/${ID.form.toUpperCase()}`,
    ...ok,
    responseBody: { id: ID.form },
  },
  {
    name: "a listing's id in upper case",
    path: `/v1/listings/${ID.listing.toUpperCase()}`,
    ...ok,
    responseBody: { id: ID.listing },
  },
  ...[
    { name: "malformed JSON", body: "{" },
    { name: "missing", body: undefined },
    { name: "text/plain", body: "x", headers: { "Content-Type": "text/plain" } },
    { name: "over the limit", body: bodyOfBytes(16_385) },
    { name: "valid", body: newStay() },
  ].map((entry) => ({
    ...entry,
    name: `a malformed id with a body that is ${entry.name}`,
    method: "PUT",
    path: "/v1/forms/nothing",
    ...notFound,
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

const methods: RequestCase[] = [
  ...allows.flatMap(([path, allow]) =>
    ["POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"]
      .filter((method) => !allow.split(", ").includes(method))
      .map((method) => ({
        name: `${method} ${path}`,
        method,
        path,
        ...methodNotAllowed,
        responseHeaders: { allow },
      })),
  ),
  ...allows.flatMap(([path, allow]) => [
    {
      name: `OPTIONS ${path}, without a key`,
      method: "OPTIONS",
      path,
      key: null,
      status: 204,
      responseHeaders: { allow },
    },
    { name: `HEAD ${path}`, method: "HEAD", path, status: 200 },
    {
      name: `HEAD ${path} with a read-only key`,
      method: "HEAD",
      path,
      key: "readOnly" as const,
      status: 200,
    },
    { name: `HEAD ${path} without a key`, method: "HEAD", path, key: null, status: 401 },
  ]),
  {
    name: "OPTIONS of a form that does not exist",
    method: "OPTIONS",
    path: `/v1/forms/${ID.missing}`,
    key: null,
    status: 204,
    responseHeaders: { allow: FORM_ALLOW },
  },
  {
    name: "OPTIONS of a malformed id",
    method: "OPTIONS",
    path: "/v1/forms/nothing",
    ...notFound,
  },
  {
    name: "HEAD of a form that does not exist",
    method: "HEAD",
    path: `/v1/forms/${ID.missing}`,
    status: 404,
  },
  { name: "HEAD of a list with a bad limit", method: "HEAD", path: "/v1/forms?limit=x", status: 400 },
  {
    name: "X-HTTP-Method-Override is ignored",
    ...POST,
    headers: { "X-HTTP-Method-Override": "GET" },
    body: "{",
    ...invalid("body"),
  },
  { name: "a body on a GET is ignored", body: "{", ...ok },
  { name: "a large body on a GET is ignored", body: bodyOfBytes(20_000), ...ok },
  {
    name: "a compressed body on a GET is ignored",
    body: gzipSync("{}"),
    headers: { "Content-Encoding": "gzip" },
    ...ok,
  },
  { name: "a read-only key reads a form", path: `/v1/forms/${ID.form}`, key: "readOnly", ...ok },
  { name: "a read-only key reads a listing", path: `/v1/listings/${ID.listing}`, key: "readOnly", ...ok },
  { name: "a read-only key lists listings", path: "/v1/listings", key: "readOnly", ...ok },
  { name: "a create with a read-only key", ...POST, key: "readOnly", body: newStay(), ...forbidden },
  { name: "an update with a read-only key", ...PUT, key: "readOnly", body: newStay(), ...forbidden },
];

const withContentType = (value: string | string[]) => ({
  ...POST,
  headers: { "Content-Type": value },
  body: json(),
});
const withEncoding = (value: string | string[], body: Buffer | string = json()) => ({
  ...POST,
  headers: { "Content-Encoding": value },
  body,
});

const mediaTypes: RequestCase[] = [
  ...[
    "application/json",
    "application/json; charset=utf-8",
    "application/json;charset=UTF-8",
    'application/json; charset="UTF-8"',
    'application/json ; charset="utf-8"',
    "Application/JSON; Charset=Utf-8",
    "application/json; profile=x",
  ].map((value) => ({ name: `JSON: ${value}`, ...withContentType(value), ...created })),
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
  ].map((value) => ({
    name: `not JSON: “${value}”`,
    ...withContentType(value),
    ...unsupported("Content-Type"),
  })),
  { name: "no content type", ...withContentType([]), ...unsupported("Content-Type") },
  { name: "no content type and no body", ...POST, ...unsupported("Content-Type") },
  {
    name: "a content type sent twice",
    ...withContentType(["application/json", "application/json"]),
    ...unsupported("Content-Type"),
  },
  {
    name: "two content types",
    ...withContentType(["application/json", "text/plain"]),
    ...unsupported("Content-Type"),
  },
  {
    name: "an update as text/plain",
    ...PUT,
    headers: { "Content-Type": "text/plain" },
    body: json(),
    ...unsupported("Content-Type"),
  },
  {
    name: "UTF-16 with charset=utf-16",
    ...POST,
    headers: { "Content-Type": "application/json; charset=utf-16" },
    body: Buffer.from(json(), "utf16le"),
    ...unsupported("Content-Type"),
  },
  { name: "UTF-16 without a charset", ...POST, body: Buffer.from(json(), "utf16le"), ...invalid("body") },
  { name: "gzip", ...withEncoding("gzip", gzipSync(json())), ...unsupported("Content-Encoding") },
  { name: "deflate", ...withEncoding("deflate", deflateSync(json())), ...unsupported("Content-Encoding") },
  { name: "br", ...withEncoding("br", brotliCompressSync(json())), ...unsupported("Content-Encoding") },
  {
    name: "GZIP in upper case",
    ...withEncoding("GZIP", gzipSync(json())),
    ...unsupported("Content-Encoding"),
  },
  { name: "an unknown encoding", ...withEncoding("x"), ...unsupported("Content-Encoding") },
  {
    name: "identity and gzip",
    ...withEncoding("identity, gzip", gzipSync(json())),
    ...unsupported("Content-Encoding"),
  },
  {
    name: "identity and gzip in two headers",
    ...withEncoding(["identity", "gzip"], gzipSync(json())),
    ...unsupported("Content-Encoding"),
  },
  { name: "gzip without Content-Encoding", ...POST, body: gzipSync(json()), ...invalid("body") },
  {
    name: "a compressed update",
    ...PUT,
    headers: { "Content-Encoding": "gzip" },
    body: gzipSync(json()),
    ...unsupported("Content-Encoding"),
  },
  { name: "identity", ...withEncoding("identity"), ...created },
  { name: "IDENTITY in upper case", ...withEncoding("IDENTITY"), ...created },
  { name: "identity twice", ...withEncoding(["identity", "identity"]), ...created },
];

const sizes: RequestCase[] = [
  { name: "a body of exactly the limit", ...POST, body: bodyOfBytes(16_384), ...created },
  { name: "one byte over the limit", ...POST, body: bodyOfBytes(16_385), ...tooLarge },
  {
    name: "a body of exactly the limit, in chunks",
    ...POST,
    body: bodyOfBytes(16_384),
    chunked: true,
    ...created,
  },
  {
    name: "one byte over the limit, in chunks",
    ...POST,
    body: bodyOfBytes(16_385),
    chunked: true,
    ...tooLarge,
  },
  { name: "many times the limit", ...POST, body: bodyOfBytes(300_000), ...tooLarge },
  {
    name: "many times the limit, in chunks",
    ...POST,
    body: bodyOfBytes(300_000),
    chunked: true,
    ...tooLarge,
  },
  { name: "an update of exactly the limit", ...PUT, body: bodyOfBytes(16_384), ...ok },
  { name: "an update of one byte over the limit", ...PUT, body: bodyOfBytes(16_385), ...tooLarge },
  {
    name: "bytes count, not characters",
    ...POST,
    body: withProperty(`"x":"${"é".repeat(8_200)}"`),
    ...tooLarge,
  },
  { name: "a body in chunks", ...POST, body: json(), chunked: true, ...created },
  {
    name: "exactly 32 fields",
    ...POST,
    body: withProperty(
      numberedNames(28, "f")
        .map((name) => `"${name}":1`)
        .join(),
    ),
    ...invalid(...numberedNames(28, "f")),
  },
  {
    name: "33 fields",
    ...POST,
    body: withProperty(
      numberedNames(29, "f")
        .map((name) => `"${name}":1`)
        .join(),
    ),
    ...tooLarge,
  },
  {
    name: "32 fields with the elements of an array",
    ...POST,
    body: withProperty(`"list":[${numberedNames(27, "").join()}]`),
    ...invalid("list"),
  },
  {
    name: "33 fields with the elements of an array",
    ...POST,
    body: withProperty(`"list":[${numberedNames(28, "").join()}]`),
    ...tooLarge,
  },
  {
    name: "33 fields in nested objects and arrays",
    ...POST,
    body: withProperty(`"more":{"list":[${numberedNames(26, "").join()}],"x":1}`),
    ...tooLarge,
  },
  { name: "33 fields of an update", ...PUT, body: bodyOfFields(33), ...tooLarge },
  {
    name: "a depth of exactly 8",
    ...POST,
    body: withProperty(bodyOfDepth(8).slice(1, -1)),
    ...invalid("deep"),
  },
  { name: "a depth of 9", ...POST, body: withProperty(bodyOfDepth(9).slice(1, -1)), ...tooLarge },
  {
    name: "a depth of 9 in objects",
    ...POST,
    body: withProperty(`"a":${'{"a":'.repeat(7)}{}${"}".repeat(7)}`),
    ...tooLarge,
  },
  { name: "an array 7,000 deep", ...POST, body: withProperty(bodyOfDepth(7_000).slice(1, -1)), ...tooLarge },
  {
    name: "a bare array 7,000 deep",
    ...POST,
    body: "[".repeat(7_000) + "]".repeat(7_000),
    ...invalid("body"),
  },
  {
    name: "an array 7,000 deep that is never closed",
    ...POST,
    body: `{"deep":${"[".repeat(7_000)}`,
    ...invalid("body"),
  },
];

const NUL = String.fromCharCode(0);
const bodies: RequestCase[] = [
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
    ["with text after it", `${json()}x`],
    ["two objects", `${json()}${json()}`],
    ["two lines of objects", `${json()}\n${json()}`],
    ["with a trailing comma", json().replace(/\}$/, ",}")],
    ["with a comment", `/* x */${json()}`],
    ["with single quotes", json().replaceAll('"', "'")],
    ["with unquoted names", "{listingId:1}"],
    ["with NaN", withProperty('"numberOfGuests":NaN')],
    ["with a leading zero", withProperty('"numberOfGuests":02')],
    ["with a hexadecimal number", withProperty('"numberOfGuests":0x2')],
    ["with a NUL byte after it", `${json()}${NUL}`],
    ["with a raw NUL in a string", withProperty(`"guestEmail":"a${NUL}@example.com"`)],
    ["with a raw line break in a string", withProperty('"guestEmail":"a\n@example.com"')],
    ["a URL-encoded form", "listingId=1&numberOfGuests=2"],
    ["two byte order marks", `\ufeff\ufeff${json()}`],
    ["a broken escape", withProperty('"guestEmail":"\\u00"')],
  ].map(([fault, body]) => ({
    name: `an invalid body: ${fault}`,
    ...POST,
    headers: { "Content-Type": "application/json" },
    body,
    ...invalid("body"),
  })),
  {
    name: "a body in invalid UTF-8",
    ...POST,
    body: Buffer.from(withProperty('"guestEmail":"\xff@example.com"'), "latin1"),
    ...invalid("body"),
  },
  {
    name: "a body in overlong UTF-8",
    ...POST,
    body: Buffer.from(withProperty('"guestEmail":"\xc0\xaf@example.com"'), "latin1"),
    ...invalid("body"),
  },
  {
    name: "a surrogate encoded in UTF-8",
    ...POST,
    body: Buffer.from(withProperty('"guestEmail":"\xed\xa0\x80@example.com"'), "latin1"),
    ...invalid("body"),
  },
  { name: "a byte order mark", ...POST, body: `\ufeff${json()}`, ...created },
  { name: "a byte order mark alone", ...POST, body: "\ufeff", ...invalid("body") },
  { name: "white space around the object", ...POST, body: `\r\n\t ${json()} \r\n`, ...created },
  { name: "escaped names", ...POST, body: json().replace('"listingId"', '"\\u006cistingId"'), ...created },
  {
    name: "an empty object",
    ...POST,
    body: "{}",
    ...invalid("listingId", "checkInDate", "checkOutDate", "numberOfGuests"),
  },
  {
    name: "an empty object as an update",
    ...PUT,
    body: "{}",
    ...invalid("listingId", "checkInDate", "checkOutDate", "numberOfGuests"),
  },
  {
    name: "an update with an empty body",
    ...PUT,
    headers: { "Content-Type": "application/json" },
    body: "",
    ...invalid("body"),
  },
  { name: "an update with an array", ...PUT, body: "[]", ...invalid("body") },
  {
    name: "the last value of a repeated property counts",
    ...POST,
    body: json().replace("{", '{"numberOfGuests":"x",'),
    ...created,
    responseBody: { numberOfGuests: 2 },
  },
  {
    name: "the last value of a repeated property counts, even if it is invalid",
    ...POST,
    body: withProperty('"numberOfGuests":0'),
    ...invalid("numberOfGuests"),
  },
  {
    name: "NUL in a listingId",
    ...post({ listingId: `${ID.listing.slice(1)}${NUL}` }),
    ...invalid("listingId"),
  },
  { name: "NUL in a guestEmail", ...post({ guestEmail: `a${NUL}@example.com` }), ...invalid("guestEmail") },
  {
    name: "NUL in an instant",
    ...post({ checkInDate: `2031-01-01T00:00:00Z${NUL}` }),
    ...invalid("checkInDate"),
  },
  { name: "NUL in a property name", ...post({ [`x${NUL}`]: 1 }), ...invalid(`x${NUL}`) },
  {
    name: "a lone surrogate in a guestEmail",
    ...POST,
    body: withProperty('"guestEmail":"\\ud800@example.com"'),
    ...invalid("guestEmail"),
  },
  {
    name: "a lone surrogate in a property name",
    ...POST,
    body: withProperty('"\\udc00":1'),
    ...invalid("\udc00"),
  },
  { name: "an empty property name", ...post({ "": 1 }), ...invalid("") },
  {
    name: "__proto__",
    ...POST,
    body: withProperty('"__proto__":{"numberOfGuests":2}'),
    ...invalid("__proto__"),
  },
  {
    name: "__proto__ that contains the required properties",
    ...POST,
    body: `{"__proto__":${json()}}`,
    ...invalid("listingId", "checkInDate", "checkOutDate", "numberOfGuests", "__proto__"),
  },
  {
    name: "__proto__ that is null",
    ...POST,
    body: withProperty('"__proto__":null'),
    ...invalid("__proto__"),
  },
  {
    name: "__proto__ in escapes",
    ...POST,
    body: withProperty('"\\u005f\\u005fproto__":1'),
    ...invalid("__proto__"),
  },
  {
    name: "constructor",
    ...POST,
    body: withProperty('"constructor":{"prototype":{}}'),
    ...invalid("constructor", "constructor.prototype"),
  },
  { name: "prototype", ...POST, body: withProperty('"prototype":1'), ...invalid("prototype") },
  {
    name: "__proto__ within an object",
    ...POST,
    body: withProperty('"a":{"b":{"__proto__":1}}'),
    ...invalid("a", "a.b.__proto__"),
  },
  {
    name: "constructor within an array",
    ...POST,
    body: withProperty('"a":[[{"constructor":1}]]'),
    ...invalid("a", "a.0.0.constructor"),
  },
  { name: "__proto__ in an update", ...PUT, body: withProperty('"__proto__":1'), ...invalid("__proto__") },
  {
    name: "names of methods of Object.prototype",
    ...post({ toString: 1, hasOwnProperty: 1, valueOf: 1 }),
    ...invalid("toString", "hasOwnProperty", "valueOf"),
  },
  { name: "an id in the body of an update", ...PUT, body: newStay({ id: ID.form }), ...invalid("id") },
  {
    name: "another id in the body of an update",
    ...PUT,
    body: newStay({ id: ID.missing }),
    ...invalid("id"),
  },
  {
    name: "an id that is null in the body of an update",
    ...PUT,
    body: newStay({ id: null }),
    ...invalid("id"),
  },
  { name: "an id in the body of a create", ...post({ id: ID.missing }), ...invalid("id") },
  { name: "a misspelled guestEmail", ...post({ guestemail: "a@example.com" }), ...invalid("guestemail") },
  {
    name: "fields that only a response has",
    ...post({ status: "SENT", publicId: "x", createdAt: "x", numberOfPets: 1 }),
    ...invalid("status", "publicId", "createdAt", "numberOfPets"),
  },
  {
    name: "all faults together, in the order of the table",
    ...POST,
    body: { zzz: 1, guestEmail: 1, numberOfGuests: 0, checkOutDate: "x", checkInDate: "x", listingId: "x" },
    ...invalid("listingId", "checkInDate", "checkOutDate", "numberOfGuests", "guestEmail", "zzz"),
  },
  {
    name: "a check-out before the check-in together with other faults",
    ...post({
      checkInDate: "2031-01-02T00:00:00Z",
      checkOutDate: "2031-01-01T00:00:00Z",
      numberOfGuests: 0,
      listingId: "x",
    }),
    ...invalid("listingId", "checkOutDate", "numberOfGuests"),
  },
];

const listingIds: RequestCase[] = [
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
    name: `a malformed listingId: ${JSON.stringify(listingId)}`,
    ...post({ listingId }),
    ...invalid("listingId"),
  })),
  {
    name: "a listingId in upper case",
    ...post({ listingId: ID.listing.toUpperCase() }),
    ...created,
    responseHeaders: { "idempotent-replayed": null },
  },
  { name: "the listing of another holder", ...POST, body: uniqueStay(ID.otherHolderListing), ...notFound },
  {
    name: "a listing on which the holder is a reader",
    ...POST,
    body: uniqueStay(ID.readerListing),
    ...notFound,
  },
  { name: "a listing that does not exist", ...POST, body: uniqueStay(ID.missing), ...notFound },
  { name: "the nil UUID", ...POST, body: uniqueStay("00000000-0000-0000-0000-000000000000"), ...notFound },
  { name: "the max UUID", ...POST, body: uniqueStay("ffffffff-ffff-ffff-ffff-ffffffffffff"), ...notFound },
  {
    name: "an update to the listing of another holder",
    ...PUT,
    body: uniqueStay(ID.otherHolderListing),
    ...notFound,
  },
  {
    name: "an update to a listing on which the holder is a reader",
    ...PUT,
    body: uniqueStay(ID.readerListing),
    ...notFound,
  },
  { name: "an update to a listing that does not exist", ...PUT, body: uniqueStay(ID.missing), ...notFound },
  {
    name: "an update of another holder's form",
    ...PUT,
    path: `/v1/forms/${ID.otherHolderForm}`,
    body: newStay(),
    ...notFound,
  },
  {
    name: "an update of a form on a listing on which the holder is a reader",
    ...PUT,
    path: `/v1/forms/${ID.readerForm}`,
    body: newStay(),
    ...notFound,
  },
  {
    name: "an update of a form that does not exist",
    ...PUT,
    path: `/v1/forms/${ID.missing}`,
    body: newStay(),
    ...notFound,
  },
  {
    name: "an update by another holder",
    ...PUT,
    key: "otherHolder",
    body: uniqueStay(ID.otherHolderListing),
    ...notFound,
  },
  { name: "an inactive listing", ...POST, body: uniqueStay(ID.inactiveListing), ...invalid("listingId") },
  {
    name: "an inactive listing with a lower capacity",
    ...POST,
    body: uniqueStay(ID.inactiveListing, { numberOfGuests: 9 }),
    ...invalid("listingId", "numberOfGuests"),
  },
  {
    name: "a move to an inactive listing",
    ...PUT,
    body: uniqueStay(ID.inactiveListing),
    ...invalid("listingId"),
  },
  { name: "a move to another listing", ...PUT, body: uniqueStay(ID.secondListing), ...ok },
  { name: "a move back", ...PUT, body: newStay(), ...ok },
];

const guests: RequestCase[] = [
  ...["3", true, null, 2.5, 0, -1, 2_147_483_648, 1e300, "", [], [2], {}].map((numberOfGuests) => ({
    name: `numberOfGuests that is ${JSON.stringify(numberOfGuests)}`,
    ...post({ numberOfGuests }),
    ...invalid("numberOfGuests"),
  })),
  {
    name: "numberOfGuests 1e400",
    ...POST,
    body: withProperty('"numberOfGuests":1e400'),
    ...invalid("numberOfGuests"),
  },
  {
    name: "numberOfGuests -0",
    ...POST,
    body: withProperty('"numberOfGuests":-0'),
    ...invalid("numberOfGuests"),
  },
  { name: "numberOfGuests 2.0", ...POST, body: withProperty('"numberOfGuests":2.0'), ...created },
  { name: "numberOfGuests 20e-1", ...POST, body: withProperty('"numberOfGuests":20e-1'), ...created },
  {
    name: "numberOfGuests 1e1, on a listing without a limit",
    ...POST,
    body: withProperty(`"numberOfGuests":1e1,"listingId":"${ID.secondListing}"`),
    ...created,
  },
  { name: "as many guests as the listing allows", ...post({ numberOfGuests: 4 }), ...created },
  {
    name: "one guest more than the listing allows",
    ...post({ numberOfGuests: 5 }),
    ...invalid("numberOfGuests"),
  },
  {
    name: "an update to one guest more than the listing allows",
    ...PUT,
    body: newStay({ numberOfGuests: 5 }),
    ...invalid("numberOfGuests"),
  },
  {
    name: "2147483647 guests on a listing without a limit",
    ...POST,
    body: uniqueStay(ID.secondListing, { numberOfGuests: 2_147_483_647 }),
    ...created,
  },
  { name: "numberOfGuests missing", ...post({ numberOfGuests: undefined }), ...invalid("numberOfGuests") },
];

const withCheckIn = (checkInDate: unknown) => ({
  ...post({ checkInDate, checkOutDate: "9999-12-31T23:59:59.999Z" }),
});
const instants: RequestCase[] = [
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
    name: `not an instant: ${JSON.stringify(value)}`,
    ...withCheckIn(value),
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
    name: `an instant: ${value}`,
    ...withCheckIn(value),
    ...created,
    responseBody: { checkInDate },
  })),
  {
    name: "29 February 1900, which does not exist and is out of range",
    ...withCheckIn("1900-02-29T15:00:00Z"),
    ...invalid("checkInDate"),
  },
  {
    name: "a check-out equal to the check-in",
    ...post({ checkInDate: "2031-01-01T15:00:00Z", checkOutDate: "2031-01-01T15:00:00Z" }),
    ...invalid("checkOutDate"),
  },
  {
    name: "a check-out equal to the check-in, with another offset",
    ...post({ checkInDate: "2031-01-01T15:00:00Z", checkOutDate: "2031-01-01T17:00:00+02:00" }),
    ...invalid("checkOutDate"),
  },
  {
    name: "a check-out one millisecond before the check-in",
    ...post({ checkInDate: "2031-01-01T15:00:00.001Z", checkOutDate: "2031-01-01T15:00:00.000Z" }),
    ...invalid("checkOutDate"),
  },
  {
    name: "a check-out equal to the check-in after both are cut to milliseconds",
    ...post({ checkInDate: "2031-01-01T15:00:00.0001Z", checkOutDate: "2031-01-01T15:00:00.0009Z" }),
    ...invalid("checkOutDate"),
  },
  {
    name: "a check-out one millisecond after the check-in",
    ...post({ checkInDate: "2031-01-01T15:00:00.000Z", checkOutDate: "2031-01-01T15:00:00.001Z" }),
    ...created,
  },
  {
    name: "a check-out after the check-in whose text sorts before it",
    ...post({ checkInDate: "2031-01-02T01:00:00+12:00", checkOutDate: "2031-01-01T23:00:00-12:00" }),
    ...created,
  },
  {
    name: "an update with a check-out before the check-in",
    ...PUT,
    body: newStay({ checkInDate: "2031-01-02T15:00:00Z", checkOutDate: "2031-01-01T15:00:00Z" }),
    ...invalid("checkOutDate"),
  },
  { name: "checkInDate missing", ...post({ checkInDate: undefined }), ...invalid("checkInDate") },
  { name: "checkOutDate missing", ...post({ checkOutDate: undefined }), ...invalid("checkOutDate") },
];

const emails: RequestCase[] = [
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
    name: `not an email address: ${JSON.stringify(guestEmail)}`,
    ...post({ guestEmail }),
    ...invalid("guestEmail"),
  })),
  { name: "an email address", ...post({ guestEmail: "ana+stay@mail.example.com" }), ...created },
  {
    name: "an email address of 254 characters",
    ...post({ guestEmail: `${"a".repeat(64)}@${`${"b".repeat(61)}.`.repeat(3)}de` }),
    ...created,
  },
  { name: "a guestEmail that is null", ...post({ guestEmail: null }), ...created },
  {
    name: "an update with an email address",
    ...PUT,
    body: newStay({ guestEmail: "ana@example.com" }),
    ...ok,
  },
];

const withIdempotencyKey = (value: string | string[], fields: Record<string, unknown> = {}) => ({
  ...post(fields),
  headers: { "Idempotency-Key": value },
});
const idempotency: RequestCase[] = [
  { name: "an Idempotency-Key of one character", ...withIdempotencyKey("1"), ...created },
  { name: "an Idempotency-Key of 255 characters", ...withIdempotencyKey("k".repeat(255)), ...created },
  {
    name: "an Idempotency-Key of 256 characters",
    ...withIdempotencyKey("k".repeat(256)),
    ...invalid("Idempotency-Key"),
  },
  {
    name: "an Idempotency-Key of all printable ASCII characters",
    ...withIdempotencyKey(String.fromCharCode(...Array.from({ length: 94 }, (_, n) => 33 + n))),
    ...created,
  },
  {
    name: "an Idempotency-Key with spaces and commas within",
    ...withIdempotencyKey("stay 1, room 2"),
    ...created,
  },
  { name: "an empty Idempotency-Key", ...withIdempotencyKey(""), ...invalid("Idempotency-Key") },
  { name: "an Idempotency-Key of spaces", ...withIdempotencyKey("   "), ...invalid("Idempotency-Key") },
  {
    name: "an Idempotency-Key with Latin-1 bytes",
    ...withIdempotencyKey("cl\xe9"),
    ...invalid("Idempotency-Key"),
  },
  {
    name: "an Idempotency-Key with UTF-8 bytes",
    ...withIdempotencyKey(Buffer.from("clé").toString("latin1")),
    ...invalid("Idempotency-Key"),
  },
  {
    name: "an Idempotency-Key with a tab within",
    ...withIdempotencyKey("a\tb"),
    ...invalid("Idempotency-Key"),
  },
  {
    name: "an Idempotency-Key sent twice",
    ...withIdempotencyKey(["one", "two"]),
    ...invalid("Idempotency-Key"),
  },
  {
    name: "an Idempotency-Key sent twice with the same value",
    ...withIdempotencyKey(["same", "same"]),
    ...invalid("Idempotency-Key"),
  },
  {
    name: "an Idempotency-Key sent twice, once empty",
    ...withIdempotencyKey(["same", ""]),
    ...invalid("Idempotency-Key"),
  },
  {
    name: "a bad Idempotency-Key on an update is ignored",
    ...PUT,
    headers: { "Idempotency-Key": "" },
    body: newStay(),
    ...ok,
  },
  {
    name: "two Idempotency-Keys on an update are ignored",
    ...PUT,
    headers: { "Idempotency-Key": ["one", "two"] },
    body: newStay(),
    ...ok,
  },
  { name: "a bad Idempotency-Key on a GET is ignored", headers: { "Idempotency-Key": "" }, ...ok },
];

const lists: RequestCase[] = ["/v1/forms", "/v1/listings"].flatMap((path): RequestCase[] => [
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
  ].map((limit) => ({ name: `limit=${limit} of ${path}`, path: `${path}?limit=${limit}`, ...ok })),
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
    name: `limit=${limit} of ${path}`,
    path: `${path}?limit=${encodeURI(limit).replaceAll("%25", "%")}`,
    ...invalid("limit"),
  })),
  { name: `limit of ${path} without a value`, path: `${path}?limit`, ...invalid("limit") },
  { name: `limit of ${path} twice`, path: `${path}?limit=5&limit=5`, ...invalid("limit") },
  { name: `limit of ${path} twice, once encoded`, path: `${path}?limit=5&%6cimit=5`, ...invalid("limit") },
  { name: `limit of ${path} twice, once empty`, path: `${path}?limit=5&limit=`, ...invalid("limit") },
  { name: `an encoded parameter name on ${path}`, path: `${path}?%6Cimit=1`, ...ok },
  {
    name: `an encoded parameter name with an invalid value on ${path}`,
    path: `${path}?%6Cimit=x`,
    ...invalid("limit"),
  },
  { name: `limit[] of ${path}`, path: `${path}?limit[]=5`, ...invalid("limit[]") },
  { name: `limit[a] of ${path}`, path: `${path}?limit%5Ba%5D=5`, ...invalid("limit[a]") },
  { name: `limit.a of ${path}`, path: `${path}?limit.a=5`, ...invalid("limit.a") },
  { name: `a parameter name in another case on ${path}`, path: `${path}?Limit=5`, ...invalid("Limit") },
  { name: `an unknown parameter of ${path}`, path: `${path}?offset=5`, ...invalid("offset") },
  {
    name: `unknown parameters of ${path}, all reported`,
    path: `${path}?a=1&b&c=`,
    ...invalid("a", "b", "c"),
  },
  {
    name: `2,000 unknown parameters of ${path}, of which 20 are reported, after the known ones`,
    path: `${path}?${numberedNames(2_000, "a").join("&")}&limit=x`,
    ...invalid("limit", ...numberedNames(20, "a")),
  },
  { name: `an unknown parameter of ${path} twice, reported once`, path: `${path}?a=1&a=2`, ...invalid("a") },
  {
    name: `known and unknown faults of ${path} together`,
    path: `${path}?a=1&limit=x`,
    ...invalid("limit", "a"),
  },
  { name: `__proto__ as a parameter of ${path}`, path: `${path}?__proto__=1`, ...invalid("__proto__") },
  {
    name: `__proto__[limit] as a parameter of ${path}`,
    path: `${path}?__proto__[limit]=1`,
    ...invalid("__proto__[limit]"),
  },
  {
    name: `constructor as a parameter of ${path}`,
    path: `${path}?constructor=1&toString=1`,
    ...invalid("constructor", "toString"),
  },
  { name: `a parameter of ${path} without a name`, path: `${path}?=1`, ...invalid("") },
  { name: `an empty query of ${path}`, path: `${path}?`, ...ok },
  { name: `a query of ${path} that has only &`, path: `${path}?&&`, ...ok },
  { name: `a second question mark on ${path}`, path: `${path}??limit=5`, ...invalid("?limit") },
  { name: `an empty cursor of ${path}`, path: `${path}?cursor=`, ...badCursor },
  { name: `a cursor of ${path} without a value`, path: `${path}?cursor`, ...badCursor },
  {
    name: `a made-up cursor of ${path}`,
    path: `${path}?cursor=AQAAAZqk3rB7igYvPGpYTVydPi8KbxB7EdKk0m6v2yY1Qh4hX0bq7g`,
    ...badCursor,
  },
  { name: `a cursor of ${path} that is JSON`, path: `${path}?cursor=%7B%22id%22%3A1%7D`, ...badCursor },
  { name: `a cursor of ${path} that is NUL`, path: `${path}?cursor=%00`, ...badCursor },
  { name: `a cursor of ${path} sent twice`, path: `${path}?cursor=x&cursor=x`, ...invalid("cursor") },
  { name: `a very long cursor of ${path}`, path: `${path}?cursor=${"A".repeat(10_000)}`, ...badCursor },
]);

const filters: RequestCase[] = [
  { name: "a listingId in scope", path: `/v1/forms?listingId=${ID.listing}`, ...ok },
  { name: "a listingId in upper case", path: `/v1/forms?listingId=${ID.listing.toUpperCase()}`, ...ok },
  ...[ID.otherHolderListing, ID.readerListing, ID.missing].map((id) => ({
    name: `a listingId out of scope: ${id}`,
    path: `/v1/forms?listingId=${id}`,
    ...ok,
    responseBody: { items: [], nextCursor: null },
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
    name: `a malformed listingId: “${id}”`,
    path: `/v1/forms?listingId=${id}`,
    ...invalid("listingId"),
  })),
  { name: "a listingId without a value", path: "/v1/forms?listingId", ...invalid("listingId") },
  {
    name: "a listingId sent twice",
    path: `/v1/forms?listingId=${ID.listing}&listingId=${ID.listing}`,
    ...invalid("listingId"),
  },
  { name: "a misspelled listingId", path: `/v1/forms?listingid=${ID.listing}`, ...invalid("listingid") },
  {
    name: "a listingId on the list of listings",
    path: `/v1/listings?listingId=${ID.listing}`,
    ...invalid("listingId"),
  },
  {
    name: "a query on a fetch is ignored",
    path: `/v1/forms/${ID.form}?limit=x&id=${ID.missing}&a[]=%zz`,
    ...ok,
  },
  {
    name: "an id in the query of a fetch is ignored",
    path: `/v1/listings/${ID.listing}?id=${ID.otherHolderListing}`,
    ...ok,
    responseBody: { id: ID.listing },
  },
  {
    name: "a query on a create is ignored",
    ...post({}),
    path: `/v1/forms?listingId=${ID.otherHolderListing}&cursor=`,
    ...created,
  },
  {
    name: "a query on an update is ignored",
    ...PUT,
    path: `/v1/forms/${ID.form}?id=${ID.missing}`,
    body: newStay(),
    ...ok,
  },
  {
    name: "a query does not replace a property of the body",
    ...POST,
    path: `/v1/forms?listingId=${ID.listing}`,
    body: newStay({ listingId: undefined }),
    ...invalid("listingId"),
  },
  ...[ID.otherHolderForm, ID.readerForm, ID.missing].map((id) => ({
    name: `a form out of scope: ${id}`,
    path: `/v1/forms/${id}`,
    ...notFound,
  })),
  ...[ID.otherHolderListing, ID.readerListing, ID.missing].map((id) => ({
    name: `a listing out of scope: ${id}`,
    path: `/v1/listings/${id}`,
    ...notFound,
  })),
  { name: "a form by the id of its listing", path: `/v1/forms/${ID.listing}`, ...notFound },
  { name: "a listing by the id of a form", path: `/v1/listings/${ID.form}`, ...notFound },
  {
    name: "an inactive listing",
    path: `/v1/listings/${ID.inactiveListing}`,
    ...ok,
    responseBody: { active: false },
  },
];

const withKey = (headers: Record<string, string | string[]>) => ({ key: null, headers }) as const;
const authentication: RequestCase[] = [
  { name: "no key", key: null, ...unauthenticated, responseHeaders: { "www-authenticate": "Bearer" } },
  ...["Bearer", "bearer", "BEARER", "bEaReR", "Bearer "].map((scheme) => ({
    name: `the scheme ${scheme}`,
    ...withKey({ Authorization: `${scheme} {readWrite}` }),
    ...ok,
  })),
  { name: "X-API-Key", ...withKey({ "X-API-Key": "{readWrite}" }), ...ok },
  { name: "x-api-key in lower case", ...withKey({ "x-api-key": "{readWrite}" }), ...ok },
  {
    name: "both headers with the same key",
    ...withKey({ Authorization: "Bearer {readWrite}", "X-API-Key": "{readWrite}" }),
    ...ok,
  },
  {
    name: "both headers with different valid keys",
    ...withKey({ Authorization: "Bearer {readWrite}", "X-API-Key": "{readOnly}" }),
    ...unauthenticated,
  },
  {
    name: "both headers with keys of different holders",
    ...withKey({ Authorization: "Bearer {otherHolder}", "X-API-Key": "{readWrite}" }),
    ...unauthenticated,
  },
  {
    name: "both headers, one of them empty",
    ...withKey({ Authorization: "Bearer {readWrite}", "X-API-Key": "" }),
    ...unauthenticated,
  },
  {
    name: "X-API-Key with an empty Authorization",
    ...withKey({ Authorization: "", "X-API-Key": "{readWrite}" }),
    ...unauthenticated,
  },
  {
    name: "X-API-Key with Authorization: Basic",
    ...withKey({ Authorization: "Basic dTpw", "X-API-Key": "{readWrite}" }),
    ...unauthenticated,
  },
  {
    name: "Authorization sent twice with the same key",
    ...withKey({ Authorization: ["Bearer {readWrite}", "Bearer {readWrite}"] }),
    ...unauthenticated,
  },
  {
    name: "Authorization sent twice, the second empty",
    ...withKey({ Authorization: ["Bearer {readWrite}", ""] }),
    ...unauthenticated,
  },
  {
    name: "X-API-Key sent twice with the same key",
    ...withKey({ "X-API-Key": ["{readWrite}", "{readWrite}"] }),
    ...unauthenticated,
  },
  {
    name: "two keys in one X-API-Key",
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
    name: `Authorization: “${value}”`,
    ...withKey({ Authorization: value }),
    ...unauthenticated,
  })),
  ...["", "x", "Bearer {readWrite}", "{readWrite}x", "x{readWrite}", "'{readWrite}'"].map((value) => ({
    name: `X-API-Key: “${value}”`,
    ...withKey({ "X-API-Key": value }),
    ...unauthenticated,
  })),
  ...["key", "api_key", "apiKey", "access_token", "x-api-key", "X-API-Key", "authorization", "token"].map(
    (name) => ({
      name: `the key in the query, as ${name}`,
      path: `/v1/forms?${name}={readWrite}`,
      key: null,
      ...unauthenticated,
    }),
  ),
  {
    name: "the key in a cookie",
    ...withKey({ Cookie: "key={readWrite}; Authorization=Bearer {readWrite}" }),
    ...unauthenticated,
  },
  {
    name: "the key in the body",
    ...POST,
    key: null,
    body: newStay({ key: "{readWrite}" }),
    ...unauthenticated,
  },
  { name: "a key with a wrong checksum", key: "mistyped", ...unauthenticated },
  { name: "a well-formed key that was never issued", key: "unknown", ...unauthenticated },
  { name: "a revoked key", key: "revoked", ...unauthenticated },
  { name: "an expired key", key: "expired", ...unauthenticated },
  { name: "a revoked key as X-API-Key", ...withKey({ "X-API-Key": "{revoked}" }), ...unauthenticated },
  { name: "a revoked key on a create", ...POST, key: "revoked", body: newStay(), ...unauthenticated },
  { name: "an expired key on an update", ...PUT, key: "expired", body: newStay(), ...unauthenticated },
  { name: "no key on a listing", path: `/v1/listings/${ID.listing}`, key: null, ...unauthenticated },
  { name: "no key on the list of listings", path: "/v1/listings", key: null, ...unauthenticated },
  { name: "no key on a form", path: `/v1/forms/${ID.form}`, key: null, ...unauthenticated },
  { name: "no key on an update", ...PUT, key: null, body: newStay(), ...unauthenticated },
];

const readOnlyMethods = { responseHeaders: { allow: "GET, HEAD, OPTIONS" } };

const outsideV1: RequestCase[] = [
  { name: "the root", path: "/", key: null, ...notFound },
  { name: "an unknown path outside /v1", path: "/v2/forms", key: null, ...notFound },
  { name: "a path that only starts with /v1", path: "/v1x/forms", key: null, ...notFound },
  { name: "metrics are not public", path: "/metrics", key: null, ...notFound },
  { name: "the internal procedures are not public", path: "/trpc/keys.list", key: null, ...notFound },
  { name: "/openapi.json with a trailing slash", path: "/openapi.json/", key: null, ...notFound },
  { name: "/livez", path: "/livez", key: null, ...ok, responseBody: { status: "ok" } },
  { name: "/readyz", path: "/readyz", key: null, ...ok, responseBody: { status: "ok" } },
  ...["/livez", "/readyz", "/openapi.json", "/docs", "/docs/"].flatMap((path) => [
    { name: `OPTIONS on ${path}`, method: "OPTIONS", path, key: null, status: 204, ...readOnlyMethods },
    ...["POST", "PUT", "DELETE", "TRACE"].map((method) => ({
      name: `${method} on ${path}`,
      method,
      path,
      key: null,
      ...methodNotAllowed,
      ...readOnlyMethods,
    })),
  ]),
  { name: "/LIVEZ in upper case", path: "/LIVEZ", key: null, ...notFound },
  { name: "/livez with a fragment", path: "/livez#top", key: null, ...notFound },
  {
    name: "the OpenAPI document",
    path: "/openapi.json",
    key: null,
    ...ok,
    responseBody: { openapi: "3.1.0" },
  },
];

/** Requests that the client of node:http can send. */
export const requestCatalog: Record<string, RequestCase[]> = {
  "order of checks": order,
  paths,
  methods,
  "content types and encodings": mediaTypes,
  "sizes, fields and depths": sizes,
  "JSON bodies": bodies,
  "listingId of a create or update": listingIds,
  numberOfGuests: guests,
  "checkInDate and checkOutDate": instants,
  guestEmail: emails,
  "Idempotency-Key": idempotency,
  lists,
  "filters and scope": filters,
  authentication,
  "paths outside /v1": outsideV1,
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
const contentLength = (body: string) => `Content-Length: ${Buffer.byteLength(body)}`;
const create = (body: string, headers: string[] = []) =>
  http(CREATE, [HOST, AUTH, JSON_TYPE, contentLength(body), ...headers], body);
const chunk = (body: string) => `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n`;
const chunkedCreate = (chunks: string) =>
  http(CREATE, [HOST, AUTH, JSON_TYPE, "Transfer-Encoding: chunked"], chunks);
const SAME = json();
const response = (expected: Expected & { method?: string }) => ({ responses: [expected] });

/** Requests that must be written byte by byte. */
export const rawRequestCatalog: RawRequestCase[] = [
  {
    name: "an absolute target",
    bytes: http("GET http://forms.example.com/v1/forms HTTP/1.1"),
    ...response(ok),
  },
  {
    name: "an absolute target in upper case",
    bytes: http("GET HTTPS://FORMS.EXAMPLE.COM/v1/forms?limit=1 HTTP/1.1"),
    ...response(ok),
  },
  {
    name: "an absolute target of an unknown path",
    bytes: http("GET http://forms.example.com/V1/forms HTTP/1.1"),
    ...response(notFound),
  },
  {
    name: "an absolute target without a path",
    bytes: http("GET http://forms.example.com HTTP/1.1"),
    ...response(notFound),
  },
  {
    name: "an absolute target without a key",
    bytes: http("GET http://forms.example.com/v1/forms HTTP/1.1", [HOST]),
    ...response(unauthenticated),
  },
  {
    name: "an absolute target whose host looks like a path",
    bytes: http("GET http://v1/forms HTTP/1.1"),
    ...response(notFound),
  },
  {
    name: "an absolute target whose host cannot be parsed",
    bytes: http("GET http://[/v1/forms HTTP/1.1"),
    ...response(ok),
  },
  {
    name: "an absolute target whose host cannot be parsed, without a key",
    bytes: http("GET http://[/v1/forms HTTP/1.1", [HOST]),
    ...response(unauthenticated),
  },
  { name: "OPTIONS *", bytes: http("OPTIONS * HTTP/1.1"), ...response(notFound) },
  {
    name: "a target that begins with a backslash",
    bytes: http("GET \\v1\\forms HTTP/1.1"),
    ...response(malformedRequest(400)),
  },
  {
    name: "a target without a slash",
    bytes: http("GET v1/forms HTTP/1.1"),
    ...response(malformedRequest(400)),
  },
  { name: "HTTP/1.0 without a Host", bytes: http("GET /v1/forms HTTP/1.0", [AUTH]), ...response(ok) },
  { name: "HTTP/1.0 without a key", bytes: http("GET /v1/forms HTTP/1.0", []), ...response(unauthenticated) },
  { name: "HTTP/1.1 without a Host", bytes: http(LIST, [AUTH]), ...response(malformedRequest(400)) },
  { name: "two Hosts", bytes: http(LIST, [HOST, HOST, AUTH]), ...response(malformedRequest(400)) },
  {
    name: "HTTP/1.1 without a Host and without a key",
    bytes: http(LIST, []),
    ...response(malformedRequest(400)),
  },
  { name: "HTTP/9.9", bytes: http("GET /v1/forms HTTP/9.9"), ...response(malformedRequest(400)) },
  {
    name: "the preface of HTTP/2",
    bytes: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ...response(malformedRequest(400)),
  },
  {
    name: "a request line without a version, and so without a key",
    bytes: "GET /v1/forms\r\n\r\n",
    ...response(unauthenticated),
  },
  {
    name: "a method in lower case",
    bytes: http("get /v1/forms HTTP/1.1"),
    ...response(malformedRequest(400)),
  },
  { name: "an unknown method", bytes: http("FETCH /v1/forms HTTP/1.1"), ...response(malformedRequest(400)) },
  {
    name: "a TLS hello",
    bytes: Buffer.from("16030100c8010000c40303", "hex"),
    ...response(malformedRequest(400)),
  },
  {
    name: "a space in the target",
    bytes: http("GET /v1/for ms HTTP/1.1"),
    ...response(malformedRequest(400)),
  },
  {
    name: "a NUL in the target",
    bytes: http("GET /v1/forms\0 HTTP/1.1"),
    ...response(malformedRequest(400)),
  },
  {
    name: "a header without a colon",
    bytes: http(LIST, [HOST, AUTH, "nonsense"]),
    ...response(malformedRequest(400)),
  },
  {
    name: "a space before a header's colon",
    bytes: http(LIST, [HOST, AUTH, "X-A : b"]),
    ...response(malformedRequest(400)),
  },
  {
    name: "a control character in a header",
    bytes: http(LIST, [HOST, AUTH, "X-A: \x01"]),
    ...response(malformedRequest(400)),
  },
  {
    name: "a control character in an Idempotency-Key",
    bytes: create(json(), ["Idempotency-Key: a\x01b"]),
    ...response(malformedRequest(400)),
  },
  {
    name: "a NUL in an Idempotency-Key",
    bytes: create(json(), ["Idempotency-Key: a\0b"]),
    ...response(malformedRequest(400)),
  },
  {
    name: "a NUL in the key",
    bytes: http(LIST, [HOST, "Authorization: Bearer \0"]),
    ...response(malformedRequest(400)),
  },
  {
    name: "an Idempotency-Key folded over two lines",
    bytes: create(json(), ["Idempotency-Key: a\r\n b"]),
    ...response(malformedRequest(400)),
  },
  {
    name: "a header of 20,000 bytes",
    bytes: http(LIST, [HOST, AUTH, `X-A: ${"a".repeat(20_000)}`]),
    ...response(malformedRequest(431)),
  },
  {
    name: "a target of 20,000 bytes",
    bytes: http(`GET /v1/forms?cursor=${"a".repeat(20_000)} HTTP/1.1`),
    ...response(malformedRequest(431)),
  },
  {
    name: "headers of 20,000 bytes together",
    bytes: http(LIST, [HOST, ...Array.from({ length: 200 }, (_, n) => `X-${n}: ${"a".repeat(100)}`)]),
    ...response(malformedRequest(431)),
  },
  {
    name: "two Content-Lengths",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Content-Length: 2", "Content-Length: 3"], "{} "),
    ...response(malformedRequest(400)),
  },
  {
    name: "two equal Content-Lengths",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Content-Length: 2", "Content-Length: 2"], "{}"),
    ...response(malformedRequest(400)),
  },
  {
    name: "a Content-Length together with chunks",
    bytes: http(
      CREATE,
      [HOST, AUTH, JSON_TYPE, "Content-Length: 2", "Transfer-Encoding: chunked"],
      "0\r\n\r\n",
    ),
    ...response(malformedRequest(400)),
  },
  ...["-1", "+2", "2.0", "0x2", "two", "2, 2", "99999999999999999999"].map((length) => ({
    name: `Content-Length: ${length}`,
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, `Content-Length: ${length}`], "{}"),
    ...response(malformedRequest(400)),
  })),
  {
    name: "a transfer encoding that is not chunked",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Transfer-Encoding: gzip"], "x"),
    ...response(malformedRequest(400)),
  },
  {
    name: "chunked that is not the last transfer encoding",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Transfer-Encoding: chunked, gzip"], "0\r\n\r\n"),
    ...response(malformedRequest(400)),
  },
  {
    name: "another transfer encoding before chunked",
    bytes: http(
      CREATE,
      [HOST, AUTH, JSON_TYPE, "Transfer-Encoding: gzip, chunked"],
      `${chunk(json())}0\r\n\r\n`,
    ),
    ...response(unsupported("Transfer-Encoding")),
  },
  {
    name: "Transfer-Encoding: CHUNKED in upper case",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Transfer-Encoding: CHUNKED"], `${chunk(json())}0\r\n\r\n`),
    ...response(created),
  },
  {
    name: "lines that end in LF alone",
    bytes: http(LIST).replaceAll("\r\n", "\n"),
    ...response(malformedRequest(400)),
  },
  {
    name: "a CR within a header",
    bytes: http(LIST, [HOST, AUTH, "X-A: a\rb"]),
    ...response(malformedRequest(400)),
  },
  {
    name: "a chunk without a size",
    bytes: chunkedCreate("zz\r\n{}\r\n0\r\n\r\n"),
    ...response(malformedRequest(400)),
  },
  {
    name: "a chunk longer than its declared size",
    bytes: chunkedCreate("2\r\n{}x\r\n0\r\n\r\n"),
    ...response(malformedRequest(400)),
  },
  {
    name: "chunks of one byte",
    bytes: chunkedCreate(`${[...json()].map(chunk).join("")}0\r\n\r\n`),
    ...response(created),
  },
  {
    name: "chunks with extensions and trailers",
    bytes: chunkedCreate(`${chunk(json()).replace("\r\n", ";a=b\r\n")}0\r\nX-Trailer: x\r\n\r\n`),
    ...response(created),
  },
  { name: "no chunks at all", bytes: chunkedCreate("0\r\n\r\n"), ...response(invalid("body")) },
  { name: "a Content-Length of 0", bytes: create(""), ...response(invalid("body")) },
  {
    name: "neither a Content-Length nor chunks",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE]),
    ...response(invalid("body")),
  },
  {
    name: "a Content-Length over the limit, before a byte of the body",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Content-Length: 16385"]),
    ...response(tooLarge),
  },
  {
    name: "a Content-Length of a gigabyte, before a byte of the body",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Content-Length: 1000000000"]),
    ...response(tooLarge),
  },
  {
    name: "chunks over the limit, before the last of them",
    bytes: chunkedCreate(chunk(" ".repeat(16_385))),
    ...response(tooLarge),
  },
  {
    name: "an unknown path with a gigabyte, before a byte of it",
    bytes: http("POST /v1/nothing HTTP/1.1", [HOST, AUTH, "Content-Length: 1000000000"]),
    ...response(notFound),
  },
  {
    name: "another method with a gigabyte, before a byte of it",
    bytes: http("DELETE /v1/forms HTTP/1.1", [HOST, AUTH, "Content-Length: 1000000000"]),
    ...response(methodNotAllowed),
  },
  {
    name: "a read-only key with a gigabyte, before a byte of it",
    bytes: http(CREATE, [HOST, "X-API-Key: {readOnly}", JSON_TYPE, "Content-Length: 1000000000"]),
    ...response(forbidden),
  },
  {
    name: "text/plain of a gigabyte, before a byte of it",
    bytes: http(CREATE, [HOST, AUTH, "Content-Type: text/plain", "Content-Length: 1000000000"]),
    ...response(unsupported("Content-Type")),
  },
  {
    name: "no key with a gigabyte, before a byte of it",
    bytes: http(CREATE, [HOST, JSON_TYPE, "Content-Length: 1000000000"]),
    ...response(unauthenticated),
  },
  {
    name: "no key with chunks, before the last of them",
    bytes: http(CREATE, [HOST, JSON_TYPE, "Transfer-Encoding: chunked"], chunk("{")),
    ...response(unauthenticated),
  },
  {
    name: "a GET with a gigabyte, before a byte of it",
    bytes: http(LIST, [HOST, AUTH, "Content-Length: 1000000000"]),
    ...response(ok),
  },
  {
    name: "an unknown Expect",
    bytes: http(CREATE, [HOST, AUTH, "Expect: something"]),
    ...response(malformedRequest(417)),
  },
  {
    name: "an unknown Expect, without a key",
    bytes: http(LIST, [HOST, "Expect: something"]),
    ...response(malformedRequest(417)),
  },
  {
    name: "Expect: 100-continue without a key, which gets no 100",
    bytes: http(CREATE, [HOST, JSON_TYPE, "Content-Length: 100", "Expect: 100-continue"]),
    ...response(unauthenticated),
  },
  {
    name: "Expect: 100-continue of a body over the limit, which gets no 100",
    bytes: http(CREATE, [HOST, AUTH, JSON_TYPE, "Content-Length: 16385", "Expect: 100-continue"]),
    ...response(tooLarge),
  },
  {
    name: "Expect: 100-continue of another content type, which gets no 100",
    bytes: http(CREATE, [HOST, AUTH, "Content-Length: 2", "Expect: 100-continue"]),
    ...response(unsupported("Content-Type")),
  },
  {
    name: "Expect: 100-continue in HTTP/1.0, which has no interim responses",
    bytes: create(json(), ["Expect: 100-continue"]).replace("HTTP/1.1", "HTTP/1.0"),
    ...response(created),
  },
  {
    name: "Expect: 100-continue of a GET",
    bytes: http(LIST, [HOST, AUTH, "Expect: 100-continue"]),
    ...response(ok),
  },
  {
    name: "Expect: 100-continue",
    bytes: create(json(), ["Expect: 100-continue"]),
    ...response(created),
    interim: [100],
  },
  {
    name: "CONNECT",
    bytes: http("CONNECT forms.example.com:443 HTTP/1.1"),
    ...response(malformedRequest(400)),
  },
  {
    name: "an upgrade, which is ignored",
    bytes: http(LIST, [HOST, AUTH, "Connection: Upgrade", "Upgrade: websocket"]),
    ...response(ok),
  },
  {
    name: "an upgrade to HTTP/2, which is ignored",
    bytes: http(LIST, [
      HOST,
      AUTH,
      "Connection: Upgrade, HTTP2-Settings",
      "Upgrade: h2c",
      "HTTP2-Settings: AAMAAABkAAQAAP__",
    ]),
    ...response(ok),
  },
  { name: "an empty line before the request", bytes: `\r\n${http(LIST)}`, ...response(ok) },
  {
    name: "four pipelined requests, answered in order",
    bytes:
      http(LIST) + http("GET /v1/nothing HTTP/1.1") + http("HEAD /v1/listings HTTP/1.1") + http(LIST, [HOST]),
    responses: [ok, notFound, { ...ok, method: "HEAD" }, unauthenticated],
  },
  { name: "two pipelined creates", bytes: create(json()) + create(json()), responses: [created, created] },
  {
    name: "the same create pipelined twice",
    bytes: create(SAME) + create(SAME),
    responses: [created, created],
  },
  {
    name: "a request after one whose body was not read",
    bytes: http(CREATE, [HOST, JSON_TYPE, contentLength(json())], json()) + http(LIST),
    responses: [unauthenticated, ok],
  },
  {
    name: "a request after one of another content type",
    bytes: create("x").replace("application/json", "text/plain") + http(LIST),
    responses: [unsupported("Content-Type"), ok],
  },
  {
    name: "a request after one that was too large",
    bytes: create(bodyOfBytes(16_385)) + http(LIST),
    responses: [tooLarge, ok],
  },
  {
    name: "a request after one that was too large in chunks",
    bytes: chunkedCreate(`${chunk(bodyOfBytes(16_385))}${chunk(bodyOfBytes(100_000))}0\r\n\r\n`) + http(LIST),
    responses: [tooLarge, ok],
  },
  {
    name: "a create and then bytes that are not HTTP",
    bytes: `${create(json())}nonsense\r\n\r\n`,
    responses: [created, malformedRequest(400)],
  },
  {
    name: "two creates and then bytes that are not HTTP",
    bytes: `${create(json())}${create(json())}nonsense\r\n\r\n`,
    responses: [created, created, malformedRequest(400)],
  },
  {
    name: "a create and then an unknown Expect",
    bytes: create(json()) + http(LIST, [HOST, AUTH, "Expect: something"]),
    responses: [created, malformedRequest(417)],
  },
  {
    name: "a create and then CONNECT",
    bytes: create(json()) + http("CONNECT forms.example.com:443 HTTP/1.1"),
    responses: [created, malformedRequest(400)],
  },
  {
    name: "a create and then headers too large",
    bytes: create(json()) + http(LIST, [HOST, AUTH, `X-A: ${"a".repeat(20_000)}`]),
    responses: [created, malformedRequest(431)],
  },
  {
    name: "a request after a GET with a body",
    bytes: http(LIST, [HOST, AUTH, "Content-Length: 2"], "{}") + http(LIST),
    responses: [ok, ok],
  },
  {
    name: "a request after a HEAD without a key",
    bytes: http("HEAD /v1/forms HTTP/1.1", [HOST]) + http(LIST),
    responses: [{ status: 401, method: "HEAD" }, ok],
  },
];
