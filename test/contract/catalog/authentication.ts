import { type CatalogRequest, ID, ok, post, put, type Row, stay, unauthenticated, words } from "./row.js";

/** No other key than in these headers. */
const withKey = (headers: CatalogRequest["headers"] = {}): CatalogRequest => ({ key: null, headers });
const xApiKey = (value: string | string[]) => withKey({ "X-API-Key": value });
const authorization = (value: string | string[]) => withKey({ Authorization: value });
const both = (authorization: string, apiKey: string) =>
  withKey({ Authorization: authorization, "X-API-Key": apiKey });
export const authentication: Row[] = [
  ["no key", { key: null }, { ...unauthenticated, headers: { "www-authenticate": "Bearer" } }],
  ...["Bearer", "bearer", "BEARER", "bEaReR", "Bearer "].map(
    (scheme): Row => [`the scheme ${scheme}`, authorization(`${scheme} {readWrite}`), ok],
  ),
  ["X-API-Key", xApiKey("{readWrite}"), ok],
  ["x-api-key in lower case", withKey({ "x-api-key": "{readWrite}" }), ok],
  ["both headers with the same key", both("Bearer {readWrite}", "{readWrite}"), ok],
  ["both headers with different valid keys", both("Bearer {readWrite}", "{readOnly}"), unauthenticated],
  [
    "both headers with keys of different holders",
    both("Bearer {otherHolder}", "{readWrite}"),
    unauthenticated,
  ],
  ["both headers, one of them empty", both("Bearer {readWrite}", ""), unauthenticated],
  ["X-API-Key with an empty Authorization", both("", "{readWrite}"), unauthenticated],
  ["X-API-Key with Authorization: Basic", both("Basic dTpw", "{readWrite}"), unauthenticated],
  [
    "Authorization sent twice with the same key",
    authorization(["Bearer {readWrite}", "Bearer {readWrite}"]),
    unauthenticated,
  ],
  ["Authorization sent twice, the second empty", authorization(["Bearer {readWrite}", ""]), unauthenticated],
  ["X-API-Key sent twice with the same key", xApiKey(["{readWrite}", "{readWrite}"]), unauthenticated],
  ["two keys in one X-API-Key", xApiKey("{readWrite}, {readWrite}"), unauthenticated],
  ...[
    "Bearer",
    "Bearer:{readWrite}",
    "Bearer={readWrite}",
    "Bearer{readWrite}",
    "{readWrite}",
    "Basic {readWrite}",
    "Token {readWrite}",
    "Bearer ",
    "Bearer {readWrite} x",
    "Bearer {readWrite},",
    'Bearer "{readWrite}"',
    "Bearer\t{readWrite}",
    "Bearer x",
    "Basic dTpw",
    "",
    "Bearer {readWrite}\xa0",
  ].map((value): Row => [`Authorization: “${value}”`, authorization(value), unauthenticated]),
  ...["", "x", "Bearer {readWrite}", "{readWrite}x", "x{readWrite}", "'{readWrite}'"].map(
    (value): Row => [`X-API-Key: “${value}”`, xApiKey(value), unauthenticated],
  ),
  ...words("key api_key apiKey access_token x-api-key X-API-Key authorization token").map(
    (name): Row => [
      `the key in the query, as ${name}`,
      { path: `/v1/forms?${name}={readWrite}`, key: null },
      unauthenticated,
    ],
  ),
  [
    "the key in a cookie",
    withKey({ Cookie: "key={readWrite}; Authorization=Bearer {readWrite}" }),
    unauthenticated,
  ],
  ["the key in the body", post(stay({ key: "{readWrite}" }), { key: null }), unauthenticated],
  ["a key with a wrong checksum", { key: "mistyped" }, unauthenticated],
  ["a well-formed key that was never issued", { key: "unknown" }, unauthenticated],
  ["a revoked key", { key: "revoked" }, unauthenticated],
  ["an expired key", { key: "expired" }, unauthenticated],
  ["a revoked key as X-API-Key", xApiKey("{revoked}"), unauthenticated],
  ["a revoked key on a create", post(stay(), { key: "revoked" }), unauthenticated],
  ["an expired key on an update", put(stay(), { key: "expired" }), unauthenticated],
  ["no key on a listing", { path: `/v1/listings/${ID.listing}`, key: null }, unauthenticated],
  ["no key on the list of listings", { path: "/v1/listings", key: null }, unauthenticated],
  ["no key on a form", { path: `/v1/forms/${ID.form}`, key: null }, unauthenticated],
  ["no key on an update", put(stay(), { key: null }), unauthenticated],
];
