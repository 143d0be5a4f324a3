import {
  badCursor,
  created,
  ID,
  invalid,
  notFound,
  numberedNames,
  ok,
  okWith,
  post,
  put,
  type Row,
  stay,
  words,
} from "./row.js";

const NINES = "9".repeat(400);
const NOT_INTEGERS =
  "1.5 2.0 1e2 %205 5%20 +5 %2B5 0x10 NaN Infinity ten null true 1,000 1_000 5; %00 %zz --5 ٣ 5%0A [5]";

export const lists: Row[] = ["/v1/forms", "/v1/listings"].flatMap((path): Row[] => [
  ...words(`0 -7 -0 007 1 100 101 100000000000 -100000000000 ${NINES} -${NINES} %35`).map(
    (limit): Row => [`limit=${limit} of ${path}`, `${path}?limit=${limit}`, ok],
  ),
  ...["", ...words(NOT_INTEGERS)].map(
    (limit): Row => [
      `limit=${limit} of ${path}`,
      `${path}?limit=${encodeURI(limit).replaceAll("%25", "%")}`,
      invalid("limit"),
    ],
  ),
  [`limit of ${path} without a value`, `${path}?limit`, invalid("limit")],
  [`limit of ${path} twice`, `${path}?limit=5&limit=5`, invalid("limit")],
  [`limit of ${path} twice, once encoded`, `${path}?limit=5&%6cimit=5`, invalid("limit")],
  [`limit of ${path} twice, once empty`, `${path}?limit=5&limit=`, invalid("limit")],
  [`an encoded parameter name on ${path}`, `${path}?%6Cimit=1`, ok],
  [`an encoded parameter name with an invalid value on ${path}`, `${path}?%6Cimit=x`, invalid("limit")],
  [`limit[] of ${path}`, `${path}?limit[]=5`, invalid("limit[]")],
  [`limit[a] of ${path}`, `${path}?limit%5Ba%5D=5`, invalid("limit[a]")],
  [`limit.a of ${path}`, `${path}?limit.a=5`, invalid("limit.a")],
  [`a parameter name in another case on ${path}`, `${path}?Limit=5`, invalid("Limit")],
  [`an unknown parameter of ${path}`, `${path}?offset=5`, invalid("offset")],
  [`unknown parameters of ${path}, all reported`, `${path}?a=1&b&c=`, invalid("a", "b", "c")],
  [
    `2,000 unknown parameters of ${path}, of which 20 are reported, after the known ones`,
    `${path}?${numberedNames(2_000, "a").join("&")}&limit=x`,
    invalid("limit", ...numberedNames(20, "a")),
  ],
  [`an unknown parameter of ${path} twice, reported once`, `${path}?a=1&a=2`, invalid("a")],
  [`known and unknown faults of ${path} together`, `${path}?a=1&limit=x`, invalid("limit", "a")],
  [`__proto__ as a parameter of ${path}`, `${path}?__proto__=1`, invalid("__proto__")],
  [`__proto__[limit] as a parameter of ${path}`, `${path}?__proto__[limit]=1`, invalid("__proto__[limit]")],
  [
    `constructor as a parameter of ${path}`,
    `${path}?constructor=1&toString=1`,
    invalid("constructor", "toString"),
  ],
  [`a parameter of ${path} without a name`, `${path}?=1`, invalid("")],
  [`an empty query of ${path}`, `${path}?`, ok],
  [`a query of ${path} that has only &`, `${path}?&&`, ok],
  [`a second question mark on ${path}`, `${path}??limit=5`, invalid("?limit")],
  [`an empty cursor of ${path}`, `${path}?cursor=`, badCursor],
  [`a cursor of ${path} without a value`, `${path}?cursor`, badCursor],
  [
    `a made-up cursor of ${path}`,
    `${path}?cursor=AQAAAZqk3rB7igYvPGpYTVydPi8KbxB7EdKk0m6v2yY1Qh4hX0bq7g`,
    badCursor,
  ],
  [`a cursor of ${path} that is JSON`, `${path}?cursor=%7B%22id%22%3A1%7D`, badCursor],
  [`a cursor of ${path} that is NUL`, `${path}?cursor=%00`, badCursor],
  [`a cursor of ${path} sent twice`, `${path}?cursor=x&cursor=x`, invalid("cursor")],
  [`a very long cursor of ${path}`, `${path}?cursor=${"A".repeat(10_000)}`, badCursor],
]);

export const filters: Row[] = [
  ["a listingId in scope", `/v1/forms?listingId=${ID.listing}`, ok],
  ["a listingId in upper case", `/v1/forms?listingId=${ID.listing.toUpperCase()}`, ok],
  ...[ID.otherHolderListing, ID.readerListing, ID.missing].map(
    (id): Row => [
      `a listingId out of scope: ${id}`,
      `/v1/forms?listingId=${id}`,
      okWith({ items: [], nextCursor: null }),
    ],
  ),
  ...[
    "",
    "x",
    `%20${ID.listing}`,
    "%00",
    "null",
    "*",
    ID.listing.slice(1),
    ID.listing.replaceAll("-", ""),
  ].map((id): Row => [`a malformed listingId: “${id}”`, `/v1/forms?listingId=${id}`, invalid("listingId")]),
  ["a listingId without a value", "/v1/forms?listingId", invalid("listingId")],
  [
    "a listingId sent twice",
    `/v1/forms?listingId=${ID.listing}&listingId=${ID.listing}`,
    invalid("listingId"),
  ],
  ["a misspelled listingId", `/v1/forms?listingid=${ID.listing}`, invalid("listingid")],
  ["a listingId on the list of listings", `/v1/listings?listingId=${ID.listing}`, invalid("listingId")],
  ["a query on a fetch is ignored", `/v1/forms/${ID.form}?limit=x&id=${ID.missing}&a[]=%zz`, ok],
  [
    "an id in the query of a fetch is ignored",
    `/v1/listings/${ID.listing}?id=${ID.otherHolderListing}`,
    okWith({ id: ID.listing }),
  ],
  [
    "a query on a create is ignored",
    post(stay(), `/v1/forms?listingId=${ID.otherHolderListing}&cursor=`),
    created,
  ],
  ["a query on an update is ignored", put(stay(), `/v1/forms/${ID.form}?id=${ID.missing}`), ok],
  [
    "a query does not replace a property of the body",
    post(stay({ listingId: undefined }), `/v1/forms?listingId=${ID.listing}`),
    invalid("listingId"),
  ],
  ...[ID.otherHolderForm, ID.readerForm, ID.missing].map(
    (id): Row => [`a form out of scope: ${id}`, `/v1/forms/${id}`, notFound],
  ),
  ...[ID.otherHolderListing, ID.readerListing, ID.missing].map(
    (id): Row => [`a listing out of scope: ${id}`, `/v1/listings/${id}`, notFound],
  ),
  ["a form by the id of its listing", `/v1/forms/${ID.listing}`, notFound],
  ["a listing by the id of a form", `/v1/listings/${ID.form}`, notFound],
  ["an inactive listing", `/v1/listings/${ID.inactiveListing}`, okWith({ active: false })],
];
