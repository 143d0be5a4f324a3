import {
  bodyOfBytes,
  created,
  createdWith,
  type Expected,
  forbidden,
  invalid,
  json,
  malformed,
  methodNotAllowed,
  notFound,
  ok,
  rejectedByParser,
  stay,
  tooLarge,
  unauthenticated,
  unsupported,
} from "./row.js";

/** Bytes for a new connection, the responses to them in order, and the statuses of interim responses before them. */
export type RawRow = readonly [
  name: string,
  bytes: string | Buffer,
  responses: RawExpected | readonly RawExpected[],
  interim?: number[],
];
/** `method` is HEAD if the response has no body. */
export type RawExpected = Expected & { method?: string };
const same = (expected: RawExpected, rows: [name: string, bytes: string | Buffer][]): RawRow[] =>
  rows.map(([name, bytes]) => [name, bytes, expected]);
const headOf = (expected: Expected): RawExpected => ({ ...expected, method: "HEAD" });

const HOST = "Host: forms.example.com";
const AUTH = "Authorization: Bearer {readWrite}";
const JSON_TYPE = "Content-Type: application/json";
const CHUNKED = "Transfer-Encoding: chunked";
const GIGABYTE = "Content-Length: 1000000000";
const LIST = "GET /v1/forms?limit=1 HTTP/1.1";
const CREATE = "POST /v1/forms HTTP/1.1";

/** A request as bytes. */
function http(line: string, headers: string[] = [HOST, AUTH], body = ""): string {
  return `${line}\r\n${headers.map((header) => `${header}\r\n`).join("")}\r\n${body}`;
}
/** A list with these headers too. */
const list = (...headers: string[]) => http(LIST, [HOST, AUTH, ...headers]);
/** A create with these headers, then these bytes. */
const createWith = (headers: string[], bytes = "") => http(CREATE, [HOST, AUTH, JSON_TYPE, ...headers], bytes);
const contentLength = (body: string) => `Content-Length: ${Buffer.byteLength(body)}`;
/** A complete create. */
const createOf = (body: string, ...headers: string[]) => createWith([contentLength(body), ...headers], body);
/** A list with another target. */
const get = (target: string, headers?: string[]) => http(`GET ${target} HTTP/1.1`, headers);
const LONG = "a".repeat(20_000);
const chunk = (body: string) => `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n`;
const LAST_CHUNK = "0\r\n\r\n";

/** Requests that must be written byte by byte. */
export const rawRequests: RawRow[] = [
  ...same(ok, [
    ["an absolute target", get("http://forms.example.com/v1/forms")],
    ["an absolute target whose host cannot be parsed", get("http://[/v1/forms")],
    ["HTTP/1.0 without a Host", http("GET /v1/forms HTTP/1.0", [AUTH])],
    ["a GET with a gigabyte, before a byte of it", list(GIGABYTE)],
    ["Expect: 100-continue of a GET", list("Expect: 100-continue")],
    ["an upgrade, which is ignored", list("Connection: Upgrade", "Upgrade: websocket")],
  ]),
  ...same(notFound, [
    ["an absolute target of an unknown path", get("http://forms.example.com/V1/forms")],
    ["an absolute target without a path", get("http://forms.example.com")],
    ["an absolute target whose host looks like a path", get("http://v1/forms")],
    ["OPTIONS *", http("OPTIONS * HTTP/1.1")],
    ["an unknown path with a gigabyte, before a byte of it", http("POST /v1/nothing HTTP/1.1", [HOST, AUTH, GIGABYTE])],
  ]),
  ...same(unauthenticated, [
    ["an absolute target without a key", get("http://[/v1/forms", [HOST])],
    ["a request line without a version, and so without a key", "GET /v1/forms\r\n\r\n"],
    ["no key with a gigabyte, before a byte of it", http(CREATE, [HOST, JSON_TYPE, GIGABYTE])],
    ["no key with chunks, before the last of them", http(CREATE, [HOST, JSON_TYPE, CHUNKED], chunk("{"))],
    [
      "Expect: 100-continue without a key, which gets no 100",
      http(CREATE, [HOST, JSON_TYPE, "Content-Length: 100", "Expect: 100-continue"]),
    ],
  ]),
  ...same(malformed, [
    ["a target that begins with a backslash", get("\\v1\\forms")],
    ["a target without a slash", get("v1/forms")],
    ["HTTP/1.1 without a Host", http(LIST, [AUTH])],
    ["two Hosts", http(LIST, [HOST, HOST, AUTH])],
    ["HTTP/1.1 without a Host and without a key", http(LIST, [])],
    ["an unknown method", http("FETCH /v1/forms HTTP/1.1")],
    ["CONNECT", http("CONNECT forms.example.com:443 HTTP/1.1")],
    ["a NUL in an Idempotency-Key", createOf(json(), "Idempotency-Key: a\0b")],
    ["an Idempotency-Key folded over two lines", createOf(json(), "Idempotency-Key: a\r\n b")],
    ["two Content-Lengths", createWith(["Content-Length: 2", "Content-Length: 3"], "{} ")],
    ["two equal Content-Lengths", createWith(["Content-Length: 2", "Content-Length: 2"], "{}")],
    ["a Content-Length together with chunks", createWith(["Content-Length: 2", CHUNKED], LAST_CHUNK)],
    ["a transfer encoding that is not chunked", createWith(["Transfer-Encoding: gzip"], "x")],
    ["chunked that is not the last transfer encoding", createWith(["Transfer-Encoding: chunked, gzip"], LAST_CHUNK)],
    ["a chunk without a size", createWith([CHUNKED], "zz\r\n{}\r\n0\r\n\r\n")],
  ]),
  ...same(rejectedByParser(431), [
    ["a target of 20,000 bytes", get(`/v1/forms?cursor=${LONG}`)],
    [
      "headers of 20,000 bytes together",
      http(LIST, [HOST, ...Array.from({ length: 200 }, (_, n) => `X-${n}: ${"a".repeat(100)}`)]),
    ],
  ]),
  ["an unknown Expect, without a key", http(LIST, [HOST, "Expect: something"]), rejectedByParser(417)],
  [
    "another transfer encoding before chunked",
    createWith(["Transfer-Encoding: gzip, chunked"], `${chunk(json())}${LAST_CHUNK}`),
    unsupported("Transfer-Encoding"),
  ],
  ...same(created, [
    ["chunked in upper case", createWith(["Transfer-Encoding: CHUNKED"], `${chunk(json())}${LAST_CHUNK}`)],
    ["chunks of one byte", createWith([CHUNKED], `${[...json()].map(chunk).join("")}${LAST_CHUNK}`)],
    [
      "chunks with extensions and trailers",
      createWith([CHUNKED], `${chunk(json()).replace("\r\n", ";a=b\r\n")}0\r\nX-Trailer: x\r\n\r\n`),
    ],
    [
      "Expect: 100-continue in HTTP/1.0, which has no interim responses",
      createOf(json(), "Expect: 100-continue").replace("HTTP/1.1", "HTTP/1.0"),
    ],
  ]),
  ["Expect: 100-continue", createOf(json(), "Expect: 100-continue"), created, [100]],
  ...same(invalid("body"), [
    ["no chunks at all", createWith([CHUNKED], LAST_CHUNK)],
    ["a Content-Length of 0", createOf("")],
    ["neither a Content-Length nor chunks", createWith([])],
  ]),
  ...same(tooLarge, [
    ["a Content-Length over the limit, before a byte of the body", createWith(["Content-Length: 16385"])],
    ["chunks over the limit, before the last of them", createWith([CHUNKED], chunk(" ".repeat(16_385)))],
    [
      "Expect: 100-continue of a body over the limit, which gets no 100",
      createWith(["Content-Length: 16385", "Expect: 100-continue"]),
    ],
  ]),
  [
    "another method with a gigabyte, before a byte of it",
    http("DELETE /v1/forms HTTP/1.1", [HOST, AUTH, GIGABYTE]),
    methodNotAllowed,
  ],
  [
    "a read-only key with a gigabyte, before a byte of it",
    http(CREATE, [HOST, "X-API-Key: {readOnly}", JSON_TYPE, GIGABYTE]),
    forbidden,
  ],
  [
    "text/plain of a gigabyte, before a byte of it",
    http(CREATE, [HOST, AUTH, "Content-Type: text/plain", GIGABYTE]),
    unsupported("Content-Type"),
  ],
  [
    "four pipelined requests, answered in order",
    list() + get("/v1/nothing") + http("HEAD /v1/listings HTTP/1.1") + http(LIST, [HOST]),
    [ok, notFound, headOf(ok), unauthenticated],
  ],
  [
    "two pipelined creates, answered in order",
    [1, 2].map((numberOfGuests) => createOf(JSON.stringify(stay({ numberOfGuests })))).join(""),
    [createdWith({ numberOfGuests: 1 }), createdWith({ numberOfGuests: 2 })],
  ],
  [
    "a request after one whose body was not read",
    http(CREATE, [HOST, JSON_TYPE, contentLength(json())], json()) + list(),
    [unauthenticated, ok],
  ],
  [
    "a request after one that was too large in chunks",
    createWith([CHUNKED], `${chunk(bodyOfBytes(16_385))}${chunk(bodyOfBytes(100_000))}${LAST_CHUNK}`) + list(),
    [tooLarge, ok],
  ],
  ["a request after a GET with a body", http(LIST, [HOST, AUTH, "Content-Length: 2"], "{}") + list(), [ok, ok]],
  [
    "two creates and then bytes that are not HTTP",
    `${createOf(json())}${createOf(json())}nonsense\r\n\r\n`,
    [created, created, malformed],
  ],
  ["a create and then an unknown Expect", createOf(json()) + list("Expect: x"), [created, rejectedByParser(417)]],
  ["a create and then CONNECT", `${createOf(json())}CONNECT a:443 HTTP/1.1\r\n${HOST}\r\n\r\n`, [created, malformed]],
  ["a create and then headers too large", createOf(json()) + list(`X-A: ${LONG}`), [created, rejectedByParser(431)]],
];
