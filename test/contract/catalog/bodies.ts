import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import {
  all,
  bodyOfBytes,
  bodyOfDepth,
  bodyOfFields,
  contentEncoding,
  contentType,
  create,
  created,
  createdWith,
  ID,
  idempotencyKey,
  invalid,
  json,
  numberedNames,
  ok,
  post,
  put,
  type Row,
  stay,
  tooLarge,
  unsupported,
  withProperty,
  words,
} from "./row.js";

const typed = (value: string | string[]) => post(json(), contentType(value));
const encoded = (value: string | string[], body: Buffer | string = json()) => post(body, contentEncoding(value));
const JSON_TYPES = [
  ...["application/json", "Application/JSON; Charset=Utf-8", 'application/json ; charset="utf-8"'],
  "application/json; profile=x",
];
const OTHER_TYPES = [
  ...words("application/json;; application/jsonx application/xml application/x-www-form-urlencoded text/json */*"),
  ...["", "application/json; charset", "application/json, application/json", "multipart/form-data; boundary=x"],
];

export const mediaTypes: Row[] = [
  ...JSON_TYPES.map((value): Row => [`JSON: ${value}`, typed(value), created]),
  ...all(
    unsupported("Content-Type"),
    words('=utf-16 =iso-8859-1 =us-ascii ="" =').map((charset) => [
      `JSON with charset${charset}`,
      typed(`application/json; charset${charset}`),
    ]),
  ),
  ...OTHER_TYPES.map((value): Row => [`not JSON: “${value}”`, typed(value), unsupported("Content-Type")]),
  ...all(unsupported("Content-Type"), [
    ["no content type", typed([])],
    ["no content type and no body", { method: "POST" }],
    ["two content types", typed(["application/json", "text/plain"])],
    ["an update as text/plain", put(json(), contentType("text/plain"))],
  ]),
  ...all(unsupported("Content-Encoding"), [
    ["gzip", encoded("gzip", gzipSync(json()))],
    ["deflate", encoded("deflate", deflateSync(json()))],
    ["br", encoded("br", brotliCompressSync(json()))],
    ["an unknown encoding", encoded("x")],
    ["identity and gzip in two headers", encoded(["identity", "gzip"], gzipSync(json()))],
    ["a compressed update", put(gzipSync(json()), contentEncoding("gzip"))],
  ]),
  ["UTF-16 without a charset", post(Buffer.from(json(), "utf16le")), invalid("body")],
  ["gzip without Content-Encoding", post(gzipSync(json())), invalid("body")],
  ["IDENTITY in upper case, twice", encoded(["IDENTITY", "identity"]), created],
];

const elements = (amount: number) => numberedNames(amount, "").join();
const fields = (amount: number) => bodyOfFields(amount).slice(1, -1);

export const sizes: Row[] = [
  ["a body of exactly the limit", post(bodyOfBytes(16_384)), created],
  ["a body of exactly the limit, in chunks", post(bodyOfBytes(16_384), { chunked: true }), created],
  ["an update of exactly the limit", put(bodyOfBytes(16_384)), ok],
  ["exactly 32 fields", post(withProperty(fields(28))), invalid(...numberedNames(28, "f"))],
  ["32 fields with the elements of an array", post(withProperty(`"list":[${elements(27)}]`)), invalid("list")],
  ["a depth of exactly 8", post(withProperty(bodyOfDepth(8).slice(1, -1))), invalid("deep")],
  ...all(tooLarge, [
    ["one byte over the limit", post(bodyOfBytes(16_385))],
    ["one byte over the limit, in chunks", post(bodyOfBytes(16_385), { chunked: true })],
    ["many times the limit, in chunks", post(bodyOfBytes(300_000), { chunked: true })],
    ["an update of one byte over the limit", put(bodyOfBytes(16_385))],
    ["bytes count, not characters", post(withProperty(`"x":"${"é".repeat(8_200)}"`))],
    ["33 fields", post(withProperty(fields(29)))],
    ["33 fields in nested objects and arrays", post(withProperty(`"more":{"list":[${elements(26)}],"x":1}`))],
    ["33 fields of an update", put(bodyOfFields(33))],
    ["a depth of 9", post(withProperty(bodyOfDepth(9).slice(1, -1)))],
    ["a depth of 9 in objects", post(withProperty(`"a":${'{"a":'.repeat(7)}{}${"}".repeat(7)}`))],
    ["an array 7,000 deep", post(withProperty(bodyOfDepth(7_000).slice(1, -1)))],
  ]),
  ["a bare array 7,000 deep", post("[".repeat(7_000) + "]".repeat(7_000)), invalid("body")],
];

const NUL = String.fromCharCode(0);
const inLatin1 = (text: string) => Buffer.from(withProperty(`"guestEmail":"${text}@example.com"`), "latin1");
const INVALID_BODIES = {
  empty: "",
  null: "null",
  "an array of a good body": `[${json()}]`,
  "a string": '"x"',
  "white space": " \n",
  truncated: json().slice(0, -1),
  "with text after it": `${json()}x`,
  "two lines of objects": `${json()}\n${json()}`,
  "with a trailing comma": json().replace(/\}$/, ",}"),
  "with a comment": `/* x */${json()}`,
  "with NaN": withProperty('"numberOfGuests":NaN'),
  "with a leading zero": withProperty('"numberOfGuests":02'),
  "with a NUL byte after it": `${json()}${NUL}`,
  "with a raw line break in a string": withProperty('"guestEmail":"a\n@example.com"'),
  "two byte order marks": `\ufeff\ufeff${json()}`,
};
const REQUIRED = ["listingId", "checkInDate", "checkOutDate", "numberOfGuests"];

export const bodies: Row[] = [
  ...Object.entries(INVALID_BODIES).map(
    ([fault, body]): Row => [`an invalid body: ${fault}`, post(body, contentType("application/json")), invalid("body")],
  ),
  ...all(invalid("body"), [
    ["a body in invalid UTF-8", post(inLatin1("\xff"))],
    ["a surrogate encoded in UTF-8", post(inLatin1("\xed\xa0\x80"))],
    ["an update with an empty body", put("", contentType("application/json"))],
    ["an update with an array", put("[]")],
  ]),
  ["a byte order mark", post(`\ufeff${json()}`), created],
  ["white space around the object", post(`\r\n\t ${json()} \r\n`), created],
  ["escaped names", post(json().replace('"listingId"', '"\\u006cistingId"')), created],
  ["an empty object", post("{}"), invalid(...REQUIRED)],
  [
    "the last value of a repeated property counts",
    post(json().replace("{", '{"numberOfGuests":"x",')),
    createdWith({ numberOfGuests: 2 }),
  ],
  ["NUL in a property name", create({ [`x${NUL}`]: 1 }), invalid(`x${NUL}`)],
  ["a lone surrogate in a property name", post(withProperty('"\\udc00":1')), invalid("\udc00")],
  ["an empty property name", create({ "": 1 }), invalid("")],
  [
    "__proto__ that contains the required properties",
    post(`{"__proto__":${json()}}`),
    invalid(...REQUIRED, "__proto__"),
  ],
  ["__proto__ in escapes", post(withProperty('"\\u005f\\u005fproto__":1')), invalid("__proto__")],
  [
    "constructor",
    post(withProperty('"constructor":{"prototype":{}}')),
    invalid("constructor", "constructor.prototype"),
  ],
  ["__proto__ within an object", post(withProperty('"a":{"b":{"__proto__":1}}')), invalid("a", "a.b.__proto__")],
  ["constructor within an array", post(withProperty('"a":[[{"constructor":1}]]')), invalid("a", "a.0.0.constructor")],
  ["__proto__ in an update", put(withProperty('"__proto__":1')), invalid("__proto__")],
  ["names of methods of Object.prototype", create({ toString: 1, valueOf: 1 }), invalid("toString", "valueOf")],
  ["the form's id in the body of an update", put(stay({ id: ID.form })), invalid("id")],
];

// The values of each field are in test/server/validation.test.ts, and over HTTP in test/contract/properties.test.ts. A listing's
// rules are in test/server/pipeline.test.ts. Here is what JSON and headers add.

const guestsAs = (json: string, more = "") => post(withProperty(`"numberOfGuests":${json}${more}`));

export const guests: Row[] = [
  ["numberOfGuests 1e400", guestsAs("1e400"), invalid("numberOfGuests")],
  ["numberOfGuests 2.0", guestsAs("2.0"), created],
  ["numberOfGuests 1e1, on a listing without a limit", guestsAs("1e1", `,"listingId":"${ID.secondListing}"`), created],
];

const keyed = (value: string | string[]) => post(stay(), idempotencyKey(value));

export const idempotency: Row[] = [
  ...all(invalid("Idempotency-Key"), [
    ["an Idempotency-Key sent twice", keyed(["one", "two"])],
    ["an Idempotency-Key sent twice with the same value", keyed(["same", "same"])],
  ]),
  ["a bad Idempotency-Key on an update is ignored", put(stay(), idempotencyKey("")), ok],
  ["a bad Idempotency-Key on a GET is ignored", idempotencyKey(""), ok],
];
