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
const createWith = (headers: string[], bytes = "") =>
  http(CREATE, [HOST, AUTH, JSON_TYPE, ...headers], bytes);
const contentLength = (body: string) => `Content-Length: ${Buffer.byteLength(body)}`;
/** A complete create. */
export const createOf = (body: string, ...headers: string[]) =>
  createWith([contentLength(body), ...headers], body);
const chunk = (body: string) => `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n`;
const LAST_CHUNK = "0\r\n\r\n";

/** Requests that must be written byte by byte. */
export const rawRequests: RawRow[] = [
  ["an absolute target", http("GET http://forms.example.com/v1/forms HTTP/1.1"), ok],
  ["an absolute target in upper case", http("GET HTTPS://FORMS.EXAMPLE.COM/v1/forms?limit=1 HTTP/1.1"), ok],
  ["an absolute target of an unknown path", http("GET http://forms.example.com/V1/forms HTTP/1.1"), notFound],
  ["an absolute target without a path", http("GET http://forms.example.com HTTP/1.1"), notFound],
  [
    "an absolute target without a key",
    http("GET http://forms.example.com/v1/forms HTTP/1.1", [HOST]),
    unauthenticated,
  ],
  ["an absolute target whose host looks like a path", http("GET http://v1/forms HTTP/1.1"), notFound],
  ["an absolute target whose host cannot be parsed", http("GET http://[/v1/forms HTTP/1.1"), ok],
  [
    "an absolute target whose host cannot be parsed, without a key",
    http("GET http://[/v1/forms HTTP/1.1", [HOST]),
    unauthenticated,
  ],
  ["OPTIONS *", http("OPTIONS * HTTP/1.1"), notFound],
  ["a target that begins with a backslash", http("GET \\v1\\forms HTTP/1.1"), malformed],
  ["a target without a slash", http("GET v1/forms HTTP/1.1"), malformed],
  ["HTTP/1.0 without a Host", http("GET /v1/forms HTTP/1.0", [AUTH]), ok],
  ["HTTP/1.0 without a key", http("GET /v1/forms HTTP/1.0", []), unauthenticated],
  ["HTTP/1.1 without a Host", http(LIST, [AUTH]), malformed],
  ["two Hosts", http(LIST, [HOST, HOST, AUTH]), malformed],
  ["HTTP/1.1 without a Host and without a key", http(LIST, []), malformed],
  ["HTTP/9.9", http("GET /v1/forms HTTP/9.9"), malformed],
  ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", malformed],
  ["a request line without a version, and so without a key", "GET /v1/forms\r\n\r\n", unauthenticated],
  ["a method in lower case", http("get /v1/forms HTTP/1.1"), malformed],
  ["an unknown method", http("FETCH /v1/forms HTTP/1.1"), malformed],
  ["a TLS hello", Buffer.from("16030100c8010000c40303", "hex"), malformed],
  ["a space in the target", http("GET /v1/for ms HTTP/1.1"), malformed],
  ["a NUL in the target", http("GET /v1/forms\0 HTTP/1.1"), malformed],
  ["a header without a colon", list("nonsense"), malformed],
  ["a space before a header's colon", list("X-A : b"), malformed],
  ["a control character in a header", list("X-A: \x01"), malformed],
  ["a control character in an Idempotency-Key", createOf(json(), "Idempotency-Key: a\x01b"), malformed],
  ["a NUL in an Idempotency-Key", createOf(json(), "Idempotency-Key: a\0b"), malformed],
  ["a NUL in the key", http(LIST, [HOST, "Authorization: Bearer \0"]), malformed],
  ["an Idempotency-Key folded over two lines", createOf(json(), "Idempotency-Key: a\r\n b"), malformed],
  ["a header of 20,000 bytes", list(`X-A: ${"a".repeat(20_000)}`), rejectedByParser(431)],
  [
    "a target of 20,000 bytes",
    http(`GET /v1/forms?cursor=${"a".repeat(20_000)} HTTP/1.1`),
    rejectedByParser(431),
  ],
  [
    "headers of 20,000 bytes together",
    http(LIST, [HOST, ...Array.from({ length: 200 }, (_, n) => `X-${n}: ${"a".repeat(100)}`)]),
    rejectedByParser(431),
  ],
  ["two Content-Lengths", createWith(["Content-Length: 2", "Content-Length: 3"], "{} "), malformed],
  ["two equal Content-Lengths", createWith(["Content-Length: 2", "Content-Length: 2"], "{}"), malformed],
  [
    "a Content-Length together with chunks",
    createWith(["Content-Length: 2", CHUNKED], LAST_CHUNK),
    malformed,
  ],
  ...["-1", "+2", "2.0", "0x2", "two", "2, 2", "99999999999999999999"].map(
    (length): RawRow => [
      `Content-Length: ${length}`,
      createWith([`Content-Length: ${length}`], "{}"),
      malformed,
    ],
  ),
  ["a transfer encoding that is not chunked", createWith(["Transfer-Encoding: gzip"], "x"), malformed],
  [
    "chunked that is not the last transfer encoding",
    createWith(["Transfer-Encoding: chunked, gzip"], LAST_CHUNK),
    malformed,
  ],
  [
    "another transfer encoding before chunked",
    createWith(["Transfer-Encoding: gzip, chunked"], `${chunk(json())}${LAST_CHUNK}`),
    unsupported("Transfer-Encoding"),
  ],
  [
    "Transfer-Encoding: CHUNKED in upper case",
    createWith(["Transfer-Encoding: CHUNKED"], `${chunk(json())}${LAST_CHUNK}`),
    created,
  ],
  ["lines that end in LF alone", list().replaceAll("\r\n", "\n"), malformed],
  ["a CR within a header", list("X-A: a\rb"), malformed],
  ["a chunk without a size", createWith([CHUNKED], "zz\r\n{}\r\n0\r\n\r\n"), malformed],
  ["a chunk longer than its declared size", createWith([CHUNKED], "2\r\n{}x\r\n0\r\n\r\n"), malformed],
  ["chunks of one byte", createWith([CHUNKED], `${[...json()].map(chunk).join("")}${LAST_CHUNK}`), created],
  [
    "chunks with extensions and trailers",
    createWith([CHUNKED], `${chunk(json()).replace("\r\n", ";a=b\r\n")}0\r\nX-Trailer: x\r\n\r\n`),
    created,
  ],
  ["no chunks at all", createWith([CHUNKED], LAST_CHUNK), invalid("body")],
  ["a Content-Length of 0", createOf(""), invalid("body")],
  ["neither a Content-Length nor chunks", createWith([]), invalid("body")],
  [
    "a Content-Length over the limit, before a byte of the body",
    createWith(["Content-Length: 16385"]),
    tooLarge,
  ],
  ["a Content-Length of a gigabyte, before a byte of the body", createWith([GIGABYTE]), tooLarge],
  [
    "chunks over the limit, before the last of them",
    createWith([CHUNKED], chunk(" ".repeat(16_385))),
    tooLarge,
  ],
  [
    "an unknown path with a gigabyte, before a byte of it",
    http("POST /v1/nothing HTTP/1.1", [HOST, AUTH, GIGABYTE]),
    notFound,
  ],
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
  ["no key with a gigabyte, before a byte of it", http(CREATE, [HOST, JSON_TYPE, GIGABYTE]), unauthenticated],
  [
    "no key with chunks, before the last of them",
    http(CREATE, [HOST, JSON_TYPE, CHUNKED], chunk("{")),
    unauthenticated,
  ],
  ["a GET with a gigabyte, before a byte of it", list(GIGABYTE), ok],
  ["an unknown Expect", http(CREATE, [HOST, AUTH, "Expect: something"]), rejectedByParser(417)],
  ["an unknown Expect, without a key", http(LIST, [HOST, "Expect: something"]), rejectedByParser(417)],
  [
    "Expect: 100-continue without a key, which gets no 100",
    http(CREATE, [HOST, JSON_TYPE, "Content-Length: 100", "Expect: 100-continue"]),
    unauthenticated,
  ],
  [
    "Expect: 100-continue of a body over the limit, which gets no 100",
    createWith(["Content-Length: 16385", "Expect: 100-continue"]),
    tooLarge,
  ],
  [
    "Expect: 100-continue of another content type, which gets no 100",
    http(CREATE, [HOST, AUTH, "Content-Length: 2", "Expect: 100-continue"]),
    unsupported("Content-Type"),
  ],
  [
    "Expect: 100-continue in HTTP/1.0, which has no interim responses",
    createOf(json(), "Expect: 100-continue").replace("HTTP/1.1", "HTTP/1.0"),
    created,
  ],
  ["Expect: 100-continue of a GET", list("Expect: 100-continue"), ok],
  ["Expect: 100-continue", createOf(json(), "Expect: 100-continue"), created, [100]],
  ["CONNECT", http("CONNECT forms.example.com:443 HTTP/1.1"), malformed],
  ["an upgrade, which is ignored", list("Connection: Upgrade", "Upgrade: websocket"), ok],
  [
    "an upgrade to HTTP/2, which is ignored",
    list("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
    ok,
  ],
  ["an empty line before the request", `\r\n${list()}`, ok],
  [
    "four pipelined requests, answered in order",
    list() + http("GET /v1/nothing HTTP/1.1") + http("HEAD /v1/listings HTTP/1.1") + http(LIST, [HOST]),
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
    "a request after one of another content type",
    createOf("x").replace("application/json", "text/plain") + list(),
    [unsupported("Content-Type"), ok],
  ],
  ["a request after one that was too large", createOf(bodyOfBytes(16_385)) + list(), [tooLarge, ok]],
  [
    "a request after one that was too large in chunks",
    createWith([CHUNKED], `${chunk(bodyOfBytes(16_385))}${chunk(bodyOfBytes(100_000))}${LAST_CHUNK}`) +
      list(),
    [tooLarge, ok],
  ],
  ["a create and then bytes that are not HTTP", `${createOf(json())}nonsense\r\n\r\n`, [created, malformed]],
  [
    "two creates and then bytes that are not HTTP",
    `${createOf(json())}${createOf(json())}nonsense\r\n\r\n`,
    [created, created, malformed],
  ],
  [
    "a create and then an unknown Expect",
    createOf(json()) + list("Expect: something"),
    [created, rejectedByParser(417)],
  ],
  [
    "a create and then CONNECT",
    createOf(json()) + http("CONNECT forms.example.com:443 HTTP/1.1"),
    [created, malformed],
  ],
  [
    "a create and then headers too large",
    createOf(json()) + list(`X-A: ${"a".repeat(20_000)}`),
    [created, rejectedByParser(431)],
  ],
  [
    "a request after a GET with a body",
    http(LIST, [HOST, AUTH, "Content-Length: 2"], "{}") + list(),
    [ok, ok],
  ],
  [
    "a request after a HEAD without a key",
    http("HEAD /v1/forms HTTP/1.1", [HOST]) + list(),
    [headOf({ status: 401 }), ok],
  ],
];
