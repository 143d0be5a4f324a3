import { gzipSync } from "node:zlib";
import {
  all,
  badCursor,
  bodyOfBytes,
  bodyOfDepth,
  bodyOfFields,
  type CatalogRequest,
  contentEncoding,
  contentType,
  create,
  created,
  forbidden,
  ID,
  idempotencyKey,
  invalid,
  methodNotAllowed,
  notFound,
  numberedNames,
  ok,
  okWith,
  post,
  put,
  type Row,
  reused,
  stay,
  stayOn,
  tooLarge,
  unauthenticated,
  unsupported,
  words,
} from "./row.js";

/** No other key than in these headers. */
const withKey = (headers: CatalogRequest["headers"] = {}): CatalogRequest => ({ key: null, headers });
const xApiKey = (value: string | string[]) => withKey({ "X-API-Key": value });
const authorization = (value: string | string[]) => withKey({ Authorization: value });
const both = (authorization: string, apiKey: string) => withKey({ Authorization: authorization, "X-API-Key": apiKey });
const KEY = "{readWrite}";
const MALFORMED_AUTHORIZATIONS = [
  ...["", "Bearer", "Bearer ", "Bearer x", KEY, `Bearer:${KEY}`, `Bearer${KEY}`, `Basic ${KEY}`, `Token ${KEY}`],
  ...[`Bearer ${KEY} x`, `Bearer ${KEY},`, `Bearer "${KEY}"`, `Bearer\t${KEY}`, `Bearer ${KEY}\xa0`],
];

export const authentication: Row[] = [
  ["no key", { key: null }, { ...unauthenticated, headers: { "www-authenticate": "Bearer" } }],
  ...["Bearer", "BEARER", "bEaReR", "Bearer "].map(
    (scheme): Row => [`the scheme ${scheme}`, authorization(`${scheme} ${KEY}`), ok],
  ),
  ...all(ok, [
    ["x-api-key in lower case", withKey({ "x-api-key": KEY })],
    ["both headers with the same key", both(`Bearer ${KEY}`, KEY)],
  ]),
  ...MALFORMED_AUTHORIZATIONS.map((value): Row => [`Authorization: “${value}”`, authorization(value), unauthenticated]),
  ...["", "x", `Bearer ${KEY}`, `${KEY}x`, `${KEY}, ${KEY}`].map(
    (value): Row => [`X-API-Key: “${value}”`, xApiKey(value), unauthenticated],
  ),
  ...words("key api_key access_token x-api-key authorization").map(
    (name): Row => [
      `the key in the query, as ${name}`,
      { path: `/v1/forms?${name}=${KEY}`, key: null },
      unauthenticated,
    ],
  ),
  ...all(unauthenticated, [
    ["both headers with different valid keys", both(`Bearer ${KEY}`, "{readOnly}")],
    ["both headers, one of them empty", both(`Bearer ${KEY}`, "")],
    ["X-API-Key with an empty Authorization", both("", KEY)],
    ["X-API-Key with Authorization: Basic", both("Basic dTpw", KEY)],
    ["Authorization sent twice with the same key", authorization([`Bearer ${KEY}`, `Bearer ${KEY}`])],
    ["X-API-Key sent twice with the same key", xApiKey([KEY, KEY])],
    ["the key in a cookie", withKey({ Cookie: `key=${KEY}; Authorization=Bearer ${KEY}` })],
    ["the key in the body", post(stay({ key: KEY }), { key: null })],
    ["a key with a wrong checksum", { key: "mistyped" }],
    ["a well-formed key that was never issued", { key: "unknown" }],
    ["a revoked key", { key: "revoked" }],
    ["an expired key", { key: "expired" }],
    ["a revoked key on a create", post(stay(), { key: "revoked" })],
    ["an expired key on an update", put(stay(), { key: "expired" })],
  ]),
];

const withoutKey = (path: string): CatalogRequest => ({ path, key: null });

export const paths: Row[] = [
  ...words(`
    /v1 /v1/ /v1?x=1 /V1/forms /v1/FORMS /v1/form /v1/forms/ /v1/forms// /v1//forms //v1/forms /v1\\forms
    /v1/./forms /v1/../v1/forms /v1/%2e%2e/v1/forms /v1/forms%2f /v1%2fforms /v1/%66orms /v1/forms%
    /v1/forms/%zz /v1/forms/%c3%28 /v1/forms%00 /v1/forms;a=b /v1/forms.json /v1/forms#top /v1/listings/ /v1/livez
  `).map((path): Row => [`an unknown path: ${path}`, path, notFound]),
  ...["/V1/forms", "//v1/forms", "/v1\\forms", "/v1", "/v1/forms/%zz"].map(
    (path): Row => [`an unknown path asks for the key first: ${path}`, withoutKey(path), unauthenticated],
  ),
  ...[
    ...words(`nothing ${ID.form}0 {${ID.form}} urn:uuid:${ID.form} ${ID.form}/ ${ID.form}%20 ${ID.form}%00`),
    ...[ID.form.slice(1), ID.form.replaceAll("-", ""), ID.form.replace("a", "%61"), ID.form.replace("a", "g")],
  ].map((id): Row => [`a malformed id of a form: ${id}`, `/v1/forms/${id}`, notFound]),
  ["a malformed id of a listing", "/v1/listings/nothing", notFound],
  ...["{", undefined, bodyOfBytes(16_385), stay()].map(
    (body, n): Row => [`a malformed id, whatever the body: ${n}`, put(body, "/v1/forms/nothing"), notFound],
  ),
];

const READ = "GET, HEAD, OPTIONS";
const ALLOW: [path: string, allow: string][] = [
  ["/v1/forms", `POST, ${READ}`],
  [`/v1/forms/${ID.form}`, `PUT, ${READ}`],
  ["/v1/listings", READ],
  [`/v1/listings/${ID.listing}`, READ],
];

export const methods: Row[] = [
  ...ALLOW.flatMap(([path, allow]): Row[] => [
    ...["POST", "PUT", "PATCH", "DELETE", "TRACE"]
      .filter((method) => !allow.includes(method))
      .map((method): Row => [`${method} ${path}`, { method, path }, { ...methodNotAllowed, headers: { allow } }]),
    [`OPTIONS ${path}, without a key`, { method: "OPTIONS", path, key: null }, { status: 204, headers: { allow } }],
    [`HEAD ${path} with a read-only key`, { method: "HEAD", path, key: "readOnly" }, { status: 200 }],
    [`HEAD ${path} without a key`, { method: "HEAD", path, key: null }, { status: 401 }],
    [`GET ${path} with a read-only key`, { path, key: "readOnly" }, ok],
  ]),
  ["OPTIONS of a malformed id", { method: "OPTIONS", path: "/v1/forms/nothing" }, notFound],
  ["X-HTTP-Method-Override is ignored", post("{", { headers: { "X-HTTP-Method-Override": "GET" } }), invalid("body")],
  ...all(ok, [
    ["a body on a GET is ignored", { body: "{" }],
    ["a large body on a GET is ignored", { body: bodyOfBytes(20_000) }],
    ["a compressed body on a GET is ignored", { body: gzipSync("{}"), headers: { "Content-Encoding": "gzip" } }],
  ]),
  ["a create with a read-only key", post(stay(), { key: "readOnly" }), forbidden],
  ["an update with a read-only key", put(stay(), { key: "readOnly" }), forbidden],
];

export const outsideV1: Row[] = [
  ...words("/ /v2/forms /v1x/forms /metrics /trpc/keys.list /openapi.json/ /LIVEZ /livez#top").map(
    (path): Row => [`an unknown path outside /v1: ${path}`, withoutKey(path), notFound],
  ),
  ["/livez", withoutKey("/livez"), okWith({ status: "ok" })],
  ["/readyz", withoutKey("/readyz"), okWith({ status: "ok" })],
  ["the OpenAPI document", withoutKey("/openapi.json"), okWith({ openapi: "3.1.0" })],
  ...["/livez", "/readyz", "/openapi.json", "/docs", "/docs/"].flatMap((path): Row[] => [
    [`OPTIONS on ${path}`, { method: "OPTIONS", path, key: null }, { status: 204, headers: { allow: READ } }],
    [`POST on ${path}`, { method: "POST", path, key: null }, { ...methodNotAllowed, headers: { allow: READ } }],
  ]),
];

const NINES = "9".repeat(400);
const NOT_INTEGERS = "1.5 1e2 %205 +5 %2B5 0x10 NaN Infinity ten null true 1,000 %00 %zz ٣ 5%0A [5]";

export const lists: Row[] = ["/v1/forms", "/v1/listings"].flatMap((path): Row[] => [
  ...words(`0 -7 007 101 ${NINES} -${NINES} %35`).map(
    (limit): Row => [`limit=${limit} of ${path}`, `${path}?limit=${limit}`, ok],
  ),
  ...["", ...words(NOT_INTEGERS)].map(
    (limit): Row => [
      `limit=${limit} of ${path}`,
      `${path}?limit=${encodeURI(limit).replaceAll("%25", "%")}`,
      invalid("limit"),
    ],
  ),
  ...all(invalid("limit"), [
    [`limit of ${path} without a value`, `${path}?limit`],
    [`limit of ${path} twice, once encoded`, `${path}?limit=5&%6cimit=5`],
    [`limit of ${path} twice, once empty`, `${path}?limit=5&limit=`],
  ]),
  ...words("limit[] limit.a Limit offset __proto__ __proto__[limit] ?limit").map(
    (name): Row => [`${name} as a parameter of ${path}`, `${path}?${name}=5`, invalid(name)],
  ),
  [`unknown parameters of ${path}, all reported once`, `${path}?a=1&b&c=&a=2`, invalid("a", "b", "c")],
  [
    `2,000 unknown parameters of ${path}, of which 20 are reported, after the known ones`,
    `${path}?${numberedNames(2_000, "a").join("&")}&limit=x`,
    invalid("limit", ...numberedNames(20, "a")),
  ],
  [`a parameter of ${path} without a name`, `${path}?=1`, invalid("")],
  [`an empty query of ${path}`, `${path}?&&`, ok],
  ...["", "=", "=%7B%22id%22%3A1%7D", "=%00", "=AQAAAZqk3rB7igYvPGpYTVydPi8KbxB7EdKk0m6v2yY1Qh4hX0bq7g"].map(
    (cursor): Row => [`cursor${cursor} of ${path}`, `${path}?cursor${cursor}`, badCursor],
  ),
  [`a very long cursor of ${path}`, `${path}?cursor=${"A".repeat(10_000)}`, badCursor],
  [`a cursor of ${path} sent twice`, `${path}?cursor=x&cursor=x`, invalid("cursor")],
]);

export const filters: Row[] = [
  ...["", "x", `%20${ID.listing}`, "%00", ID.listing.slice(1)].map(
    (id): Row => [`a malformed listingId: “${id}”`, `/v1/forms?listingId=${id}`, invalid("listingId")],
  ),
  ["a listingId sent twice", `/v1/forms?listingId=${ID.listing}&listingId=${ID.listing}`, invalid("listingId")],
  ["a misspelled listingId", `/v1/forms?listingid=${ID.listing}`, invalid("listingid")],
  ["a listingId on the list of listings", `/v1/listings?listingId=${ID.listing}`, invalid("listingId")],
  ...words("SENT COMPLETED CANCELLED").map((status): Row => [`the status ${status}`, `/v1/forms?status=${status}`, ok]),
  ...["", "UNKNOWN", "sent", "SENT,COMPLETED", "NOT_PUBLIC", "%00"].map(
    (status): Row => [`no known status: “${status}”`, `/v1/forms?status=${status}`, invalid("status")],
  ),
  ...["booking-1", "%20a%20", "%25", "%C3%BC", "a".repeat(255)].map(
    (id): Row => [`the external id ${id}`, `/v1/forms?externalId=${id}`, ok],
  ),
  ...["", "%20", "%00", "%E2%80%AE", "a".repeat(256)].map(
    (id): Row => [`no external id: “${id}”`, `/v1/forms?externalId=${id}`, invalid("externalId")],
  ),
  ...words("updatedSince checkInFrom checkInTo").flatMap((name): Row[] => [
    ...["2027-07-01T15:00:00Z", "2027-07-01T15:00:00.123456%2B02:00", "2027-07-01T15:00-11:30"].map(
      (instant): Row => [`${name} ${instant}`, `/v1/forms?${name}=${instant}`, ok],
    ),
    ...[
      "",
      "2027-07-01",
      "2027-07-01T15:00:00",
      "2027-07-01T15:00:00+02:00",
      "2027-02-31T00:00:00Z",
      "1782918000",
      "now",
    ].map(
      (instant): Row => [`${name} that is no instant: “${instant}”`, `/v1/forms?${name}=${instant}`, invalid(name)],
    ),
    [`${name} sent twice`, `/v1/forms?${name}=2027-07-01T15:00Z&${name}=2027-07-01T15:00Z`, invalid(name)],
    [`${name} of listings`, `/v1/listings?${name}=2027-07-01T15:00Z`, invalid(name)],
  ]),
  [
    "an empty range of arrivals",
    "/v1/forms?checkInFrom=2027-07-01T15:00Z&checkInTo=2027-07-01T15:00Z",
    invalid("checkInTo"),
  ],
  [
    "several wrong filters",
    "/v1/forms?checkInTo=x&status=x&externalId=&listingId=x",
    invalid("listingId", "status", "externalId", "checkInTo"),
  ],
  [
    "all filters",
    `/v1/forms?listingId=${ID.listing}&status=SENT&externalId=a&updatedSince=2027-07-01T15:00Z&checkInFrom=2027-07-01T15:00Z&checkInTo=2027-07-02T15:00Z`,
    ok,
  ],
  ["a query on a fetch is ignored", `/v1/forms/${ID.form}?limit=x&id=${ID.missing}&a[]=%zz`, ok],
  ["a query on a create is ignored", post(stay(), `/v1/forms?listingId=${ID.otherHolderListing}&cursor=`), created],
  ["a query on an update is ignored", put(stay(), `/v1/forms/${ID.form}?id=${ID.missing}`), ok],
  [
    "a query does not replace a property of the body",
    post(stay({ listingId: undefined }), `/v1/forms?listingId=${ID.listing}`),
    invalid("listingId"),
  ],
];

const readOnly = { key: "readOnly" } as const;
const otherForm = `/v1/forms/${ID.otherHolderForm}`;
const typeAndEncoding = { headers: { "Content-Type": "text/plain", "Content-Encoding": "gzip" } };

/** gateway/docs/contract.md#order-of-checks: each request fails two neighboring checks, and the first one answers. */
export const order: Row[] = [
  ["OPTIONS on a known path before the key", { method: "OPTIONS", key: null }, { status: 204 }],
  ...all(unauthenticated, [
    ["the key before an unknown path", { path: "/v1/nothing", key: null }],
    ["the key before the method", { method: "DELETE", key: null }],
    ["the key before the body", post("{", { key: null })],
  ]),
  ...all(notFound, [
    ["the path before the method", { method: "DELETE", path: "/v1/nothing" }],
    ["the path before the mode", { ...readOnly, method: "PUT", path: "/v1/forms/nothing", body: "{}" }],
  ]),
  ["the method before the mode", { ...readOnly, method: "PATCH", body: "{}" }, methodNotAllowed],
  ...all(forbidden, [
    ["the mode before the content type", post("x", { ...readOnly, ...contentType("text/plain") })],
    ["the mode before the size", post(bodyOfBytes(16_385), readOnly)],
    ["the mode before the scope", put(stay(), { ...readOnly, path: otherForm })],
  ]),
  ["the content type before the encoding", post("x", typeAndEncoding), unsupported("Content-Type")],
  ["the encoding before the size", post(bodyOfBytes(16_385), contentEncoding("gzip")), unsupported("Content-Encoding")],
  ["the size before JSON", post("{".repeat(16_385)), tooLarge],
  ...all(invalid("body"), [
    ["JSON before the number of fields", post(bodyOfFields(33).slice(0, -1))],
    ["an object before the number of fields", post(JSON.stringify(numberedNames(33, "f")))],
    ["JSON before the depth", post(bodyOfDepth(9).slice(0, -1))],
  ]),
  ...all(tooLarge, [
    ["the number of fields before the shape", post(bodyOfFields(33))],
    ["the number of fields before forbidden names", post(`{"__proto__":1,${bodyOfFields(32).slice(1)}`)],
    ["the number of fields before the headers", post(bodyOfFields(33), idempotencyKey(""))],
    ["the depth before the shape", post(bodyOfDepth(9))],
  ]),
  [
    "the shape together with the headers",
    create({ numberOfGuests: 0 }, idempotencyKey("")),
    invalid("numberOfGuests", "Idempotency-Key"),
  ],
  ["the shape before the cursor", "/v1/forms?limit=x&cursor=x", invalid("limit")],
  ["an unknown parameter before the cursor", "/v1/listings?cursor=x&page=2", invalid("page")],
  ["the cursor before the scope of listingId", `/v1/forms?cursor=x&listingId=${ID.otherHolderListing}`, badCursor],
  ["the shape before the scope", post(stayOn(ID.otherHolderListing, { numberOfGuests: 0 })), invalid("numberOfGuests")],
  ["the headers before the scope", post(stayOn(ID.otherHolderListing), idempotencyKey("")), invalid("Idempotency-Key")],
  ["the shape before the scope of an update", put(stay({ numberOfGuests: 0 }), otherForm), invalid("numberOfGuests")],
  ["setup: a create with the Idempotency-Key “bound”", create({}, idempotencyKey("bound")), created],
  ...all(reused, [
    ["idempotency before the listing's capacity", create({ numberOfGuests: 5 }, idempotencyKey("bound"))],
    ["idempotency before the inactive listing", post(stayOn(ID.inactiveListing), idempotencyKey("bound"))],
  ]),
  ...all(notFound, [
    ["the scope before idempotency", post(stayOn(ID.otherHolderListing), idempotencyKey("bound"))],
    ["the scope before the listing's rules", post(stayOn(ID.otherHolderListing, { numberOfGuests: 5 }))],
    ["the scope of the form before the rules of the listing", put(stay({ numberOfGuests: 5 }), otherForm)],
  ]),
];
