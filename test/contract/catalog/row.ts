import type { ErrorCode } from "../../../server/errors.js";
import { uniqueStay } from "../../support/stays.js";

/** The rows that the requests name. `request-catalog.test.ts` creates them. */
export const ID = {
  /** The holder's. Allows at most 4 guests. */
  listing: "1a1a1a1a-1111-4111-8111-1a1a1a1a1a1a",
  secondListing: "2b2b2b2b-2222-4222-8222-2b2b2b2b2b2b",
  inactiveListing: "3c3c3c3c-3333-4333-8333-3c3c3c3c3c3c",
  /** Another holder's. */
  otherHolderListing: "4d4d4d4d-4444-4444-8444-4d4d4d4d4d4d",
  missing: "6f6f6f6f-6666-4666-8666-6f6f6f6f6f6f",
  form: "a1a1a1a1-1111-4111-8111-a1a1a1a1a1a1",
  otherHolderForm: "a4a4a4a4-4444-4444-8444-a4a4a4a4a4a4",
} as const;

/** `{name}` in a header, a path or raw bytes is replaced by this key. */
export type KeyName = "readWrite" | "readOnly" | "otherHolder" | "revoked" | "expired" | "unknown" | "mistyped";

/** A request and its response: a rule that a client can see. The name and the response are the title of the test. */
export type Row = readonly [name: string, request: CatalogRequest | string, expected: Expected];

/** Requests with the same response. */
export const all = (expected: Expected, requests: [name: string, request: CatalogRequest | string][]): Row[] =>
  requests.map(([name, request]) => [name, request, expected]);

/** A string instead is the path of a GET with the read-write key. */
export interface CatalogRequest {
  method?: string;
  /** Default: `/v1/forms`. */
  path?: string;
  /** Default: the read-write key. Null sends none. */
  key?: KeyName | null;
  headers?: Record<string, string | string[]>;
  body?: unknown;
  chunked?: boolean;
}

/** The exact response; `fields` are those of `errors[]`, in order. */
export interface Expected {
  status: number;
  code?: ErrorCode;
  fields?: string[];
  /** Values of headers; null if the header must be absent. */
  headers?: Record<string, string | null>;
  /** Part of the response body. */
  body?: Record<string, unknown>;
}

export const ok: Expected = { status: 200 };
export const okWith = (body: Expected["body"] = {}): Expected => ({ status: 200, body });
export const created: Expected = { status: 201 };
export const createdWith = (body: Expected["body"] = {}): Expected => ({ status: 201, body });
export const unauthenticated: Expected = { status: 401, code: "UNAUTHENTICATED" };
export const forbidden: Expected = { status: 403, code: "FORBIDDEN" };
export const notFound: Expected = { status: 404, code: "RESOURCE_NOT_FOUND" };
export const methodNotAllowed: Expected = { status: 405, code: "RESOURCE_NOT_FOUND" };
export const tooLarge: Expected = { status: 413, code: "PAYLOAD_TOO_LARGE" };
export const badCursor: Expected = { status: 400, code: "INVALID_CURSOR" };
export const reused: Expected = { status: 422, code: "IDEMPOTENCY_KEY_REUSED" };
const validationError =
  (status: number) =>
  (...fields: string[]): Expected => ({ status, code: "VALIDATION_ERROR", fields });
export const invalid = validationError(400);
export const unsupported = validationError(415);
/** Rejected before it is a request. */
export const rejectedByParser = (status: number) => validationError(status)("request");
export const malformed = rejectedByParser(400);

/** Other parts of a request. A string is its path. */
type More = Omit<CatalogRequest, "body"> | string;
const partsOf = (more: More) => (typeof more === "string" ? { path: more } : more);

/** A create with this body. */
export const post = (body: unknown, more: More = {}): CatalogRequest => ({ method: "POST", body, ...partsOf(more) });
/** An update with this body. */
export const put = (body: unknown, more: More = {}): CatalogRequest => ({
  method: "PUT",
  path: `/v1/forms/${ID.form}`,
  body,
  ...partsOf(more),
});
/** A create that is valid except for these properties. */
export const create = (fields: Record<string, unknown>, more: More = {}) => post(stay(fields), more);

export const contentType = (value: string | string[]) => ({ headers: { "Content-Type": value } });
export const contentEncoding = (value: string | string[]) => ({ headers: { "Content-Encoding": value } });
export const idempotencyKey = (value: string | string[]) => ({ headers: { "Idempotency-Key": value } });

export const stayOn = uniqueStay;
export const stay = (fields: Record<string, unknown> = {}) => uniqueStay(ID.listing, fields);
/** A valid body as JSON text. */
export const json = () => JSON.stringify(stay());
/** A body with one more property, as JSON text. */
export const withProperty = (property: string) => json().replace(/\}$/, () => `,${property}}`);
export const bodyOfBytes = (bytes: number) => json().padEnd(bytes, " ");
export const bodyOfFields = (fields: number) =>
  JSON.stringify(Object.fromEntries(numberedNames(fields, "f").map((name) => [name, 1])));
export const bodyOfDepth = (depth: number) => `{"deep":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`;
export const numberedNames = (amount: number, name: string) => Array.from({ length: amount }, (_, n) => `${name}${n}`);

/** Splits text at white space. */
export const words = (text: string) => text.trim().split(/\s+/);
