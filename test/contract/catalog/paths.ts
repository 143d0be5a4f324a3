import { gzipSync } from "node:zlib";
import {
  bodyOfBytes,
  type CatalogRequest,
  contentType,
  forbidden,
  ID,
  invalid,
  methodNotAllowed,
  notFound,
  ok,
  okWith,
  post,
  put,
  type Row,
  stay,
  unauthenticated,
  words,
} from "./row.js";

const withoutKey = (path: string): CatalogRequest => ({ path, key: null });

export const paths: Row[] = [
  ...words(`
    /v1 /v1/ /v1?x=1 /V1/forms /v1/FORMS /v1/Forms /v1/form /v1/forms/ /v1/forms// /v1//forms
    //v1/forms ///v1/forms /v1\\forms /v1/./forms /v1/../v1/forms /v1/%2e/forms
    /v1/%2e%2e/v1/forms /v1/listings/%2e%2e/forms /v1/forms%2f /v1%2fforms /v1/%66orms /v1/forms%
    /v1/forms/%zz /v1/forms/%c3%28 /v1/forms%00 /v1/forms;a=b /v1/forms.json /v1/forms#top
    /v1/listings/ /v1/openapi.json /v1/internal /v1/livez
  `).map((path): Row => [`an unknown path: ${path}`, path, notFound]),
  ...["/V1/forms", "//v1/forms", "/v1\\forms", "/v1", "/v1/", "/v1//forms", "/v1/forms/%zz"].map(
    (path): Row => [`an unknown path asks for the key first: ${path}`, withoutKey(path), unauthenticated],
  ),
  ...[
    ...words(`
    nothing 0 ${ID.form}0 {${ID.form}} %7B${ID.form}%7D urn:uuid:${ID.form} ${ID.form}/
    ${ID.form}%20 %20${ID.form} ${ID.form}%00 ${ID.form}/guests
  `),
    ID.form.slice(1),
    ID.form.replaceAll("-", ""),
    ID.form.replace("a", "%61"),
    ID.form.replace("a", "g"),
    ID.form.replaceAll("-", "%2D"),
  ].map((id): Row => [`a malformed id of a form: ${id}`, `/v1/forms/${id}`, notFound]),
  ["a malformed id of a listing", "/v1/listings/nothing", notFound],
  [
    "an id in upper case, answered in lower case",
    `/v1/forms/${ID.form.toUpperCase()}`,
    okWith({ id: ID.form }),
  ],
  ["a listing's id in upper case", `/v1/listings/${ID.listing.toUpperCase()}`, okWith({ id: ID.listing })],
  ...[
    ["malformed JSON", "{"],
    ["missing", undefined],
    ["over the limit", bodyOfBytes(16_385)],
    ["valid", stay()],
  ].map(
    ([fault, body]): Row => [
      `a malformed id with a body that is ${fault}`,
      put(body, "/v1/forms/nothing"),
      notFound,
    ],
  ),
  [
    "a malformed id with a body that is text/plain",
    put("x", { path: "/v1/forms/nothing", ...contentType("text/plain") }),
    notFound,
  ],
];

const READ = "GET, HEAD, OPTIONS";
const ALLOW: [path: string, allow: string][] = [
  ["/v1/forms", `POST, ${READ}`],
  [`/v1/forms/${ID.form}`, `PUT, ${READ}`],
  ["/v1/listings", READ],
  [`/v1/listings/${ID.listing}`, READ],
];

export const methods: Row[] = [
  ...ALLOW.flatMap(([path, allow]) =>
    ["POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"]
      .filter((method) => !allow.split(", ").includes(method))
      .map(
        (method): Row => [`${method} ${path}`, { method, path }, { ...methodNotAllowed, headers: { allow } }],
      ),
  ),
  ...ALLOW.flatMap(([path, allow]): Row[] => [
    [
      `OPTIONS ${path}, without a key`,
      { method: "OPTIONS", path, key: null },
      { status: 204, headers: { allow } },
    ],
    [`HEAD ${path}`, { method: "HEAD", path }, { status: 200 }],
    [`HEAD ${path} with a read-only key`, { method: "HEAD", path, key: "readOnly" }, { status: 200 }],
    [`HEAD ${path} without a key`, { method: "HEAD", path, key: null }, { status: 401 }],
  ]),
  [
    "OPTIONS of a form that does not exist",
    { method: "OPTIONS", path: `/v1/forms/${ID.missing}`, key: null },
    { status: 204, headers: { allow: `PUT, ${READ}` } },
  ],
  ["OPTIONS of a malformed id", { method: "OPTIONS", path: "/v1/forms/nothing" }, notFound],
  [
    "HEAD of a form that does not exist",
    { method: "HEAD", path: `/v1/forms/${ID.missing}` },
    { status: 404 },
  ],
  ["HEAD of a list with a bad limit", { method: "HEAD", path: "/v1/forms?limit=x" }, { status: 400 }],
  [
    "X-HTTP-Method-Override is ignored",
    post("{", { headers: { "X-HTTP-Method-Override": "GET" } }),
    invalid("body"),
  ],
  ["a body on a GET is ignored", { body: "{" }, ok],
  ["a large body on a GET is ignored", { body: bodyOfBytes(20_000) }, ok],
  [
    "a compressed body on a GET is ignored",
    { body: gzipSync("{}"), headers: { "Content-Encoding": "gzip" } },
    ok,
  ],
  ["a read-only key reads a form", { path: `/v1/forms/${ID.form}`, key: "readOnly" }, ok],
  ["a read-only key reads a listing", { path: `/v1/listings/${ID.listing}`, key: "readOnly" }, ok],
  ["a read-only key lists listings", { path: "/v1/listings", key: "readOnly" }, ok],
  ["a create with a read-only key", post(stay(), { key: "readOnly" }), forbidden],
  ["an update with a read-only key", put(stay(), { key: "readOnly" }), forbidden],
];

export const outsideV1: Row[] = [
  ["the root", withoutKey("/"), notFound],
  ["an unknown path outside /v1", withoutKey("/v2/forms"), notFound],
  ["a path that only starts with /v1", withoutKey("/v1x/forms"), notFound],
  ["metrics are not public", withoutKey("/metrics"), notFound],
  ["the internal procedures are not public", withoutKey("/trpc/keys.list"), notFound],
  ["/openapi.json with a trailing slash", withoutKey("/openapi.json/"), notFound],
  ["/livez", withoutKey("/livez"), okWith({ status: "ok" })],
  ["/readyz", withoutKey("/readyz"), okWith({ status: "ok" })],
  ...["/livez", "/readyz", "/openapi.json", "/docs", "/docs/"].flatMap((path): Row[] => [
    [`OPTIONS on ${path}`, { method: "OPTIONS", path, key: null }, { status: 204, headers: { allow: READ } }],
    ...["POST", "PUT", "DELETE", "TRACE"].map(
      (method): Row => [
        `${method} on ${path}`,
        { method, path, key: null },
        { ...methodNotAllowed, headers: { allow: READ } },
      ],
    ),
  ]),
  ["/LIVEZ in upper case", withoutKey("/LIVEZ"), notFound],
  ["/livez with a fragment", withoutKey("/livez#top"), notFound],
  ["the OpenAPI document", withoutKey("/openapi.json"), okWith({ openapi: "3.1.0" })],
];
