import { Agent, type IncomingHttpHeaders, type OutgoingHttpHeaders, request as sendHttp } from "node:http";
import { connect, createServer, type Server, type Socket } from "node:net";
import { type Logger, pino } from "pino";
import { afterAll, expect } from "vitest";
import { type Gateway, startGateway } from "../gateway/serve.js";
import { readSettings, type Settings } from "../server/config.js";
import type { Services } from "../server/context.js";
import { ERRORS, type ErrorCode, type FieldError } from "../server/errors.js";
import { validateResponse } from "./contract/responses.js";
import { makeKey, makeUser, openTestServices, TEST_SECRET } from "./factories.js";
import { createTestDatabase } from "./harness.js";
import { FORM_FIELDS, LISTING_FIELDS, matches, UUID } from "./public-fields.js";

/** One HTTP response, as it came over the wire. */
export interface HttpResponse {
  status: number;
  /** Names in lower case; of a repeated header, the values joined by a comma and a space. */
  headers: Record<string, string>;
  text: string;
  json: unknown;
}

/** A request that node's client can send. */
export interface HttpRequest {
  method?: string;
  path: string;
  /** Sent as `Authorization: Bearer …`. */
  key?: string | null | undefined;
  /** A list sends the header that many times. */
  headers?: Record<string, string | readonly string[]>;
  /** Bytes or text as they are; anything else as JSON. `Content-Type: application/json` unless `headers` say. */
  body?: unknown;
  /** Sends the body in chunks, without a Content-Length. */
  chunked?: boolean;
}

export interface LogLine extends Record<string, unknown> {
  msg: string;
  level: number;
}

/** A user with a key of each mode. */
export interface KeyHolder {
  userId: string;
  /** A read-write key. */
  key: string;
  keyId: string;
  readOnlyKey: string;
}

const running: TestGateway[] = [];

afterAll(async () => {
  await Promise.all(running.map((gateway) => gateway.stop()));
});

const UNLESS_TOLD = {
  HOST: "127.0.0.1",
  PORT: 0,
  APP_SECRETS: TEST_SECRET,
  RATE_LIMIT_MAX: 1e9,
  BAD_KEY_LIMIT_MAX: 1e9,
  // Patient, for a machine that runs many tests at once.
  DATABASE_CONNECT_TIMEOUT_MS: 10_000,
  DATABASE_STATEMENT_TIMEOUT_MS: 10_000,
  DATABASE_LOCK_TIMEOUT_MS: 9_000,
};

/** The real gateway on a port of its own, with limits that no test meets unless it sets them. */
export async function startTestGateway(settings: Record<string, string | number> = {}): Promise<TestGateway> {
  const DATABASE_URL = settings.DATABASE_URL ?? (await createTestDatabase()).url;
  const texts = Object.entries({ ...UNLESS_TOLD, ...settings, DATABASE_URL });
  const env = Object.fromEntries(texts.map(([name, value]) => [name, String(value)]));
  const log: LogLine[] = [];
  const logger = pino(
    { level: "trace", base: null },
    { write: (line: string) => void log.push(JSON.parse(line)) },
  );
  const gateway = new TestGateway(readSettings(env), logger, log);
  await gateway.start();
  running.push(gateway);
  return gateway;
}

/** A gateway under test: every answer that passes through it is held against what all answers promise. */
export class TestGateway {
  url = "";
  port = 0;
  readonly settings: Settings;
  readonly log: LogLine[];
  readonly #logger: Logger;
  #gateway: Gateway | undefined;
  #core: Promise<Services> | undefined;
  #leaving: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #wires = new Set<RawConnection>();
  /** What must never be found in a log line. */
  readonly #secrets = new Set<string>();
  /** Correlation ids of the answers, and whether a handler gave the answer. */
  readonly #ids = new Map<string, { handled: boolean }>();
  #tables: string[] | undefined;

  constructor(settings: Settings, logger: Logger, log: LogLine[]) {
    this.settings = settings;
    this.#logger = logger;
    this.log = log;
  }

  async start(): Promise<void> {
    this.#gateway = await startGateway({ settings: this.settings, log: this.#logger, worker: false });
    this.url = this.#gateway.url;
    this.port = Number(new URL(this.url).port);
  }

  /** The core on the same database, for what tests do beside HTTP; opened at its first use. */
  services(): Promise<Services> {
    this.#core ??= openTestServices({ DATABASE_URL: String(this.settings.DATABASE_URL) });
    return this.#core;
  }

  async addKeyHolder(): Promise<KeyHolder> {
    const services = await this.services();
    const { id: userId, email } = await makeUser(services);
    this.forbidInLog(email);
    const { key, id: keyId } = await this.issueKey(userId);
    const { key: readOnlyKey } = await this.issueKey(userId, { mode: "READ_ONLY" });
    return { userId, key, keyId, readOnlyKey };
  }

  async issueKey(userId: string, overrides: Parameters<typeof makeKey>[2] = {}) {
    const issued = await makeKey(await this.services(), userId, overrides);
    this.forbidInLog(issued.key);
    return issued;
  }

  /** What tells a write: the rows of each table, and the transaction that last wrote one; not a key's last use. */
  async snapshotTables(): Promise<Record<string, string>> {
    const { pool } = (await this.services()).db;
    this.#tables ??= (
      await pool.query<{ name: string }>(
        `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
         WHERE schemaname = 'public' ORDER BY 1`,
      )
    ).rows.map(({ name }) => name);
    const each = this.#tables.map((name) => {
      const last =
        name === "public.api_keys"
          ? "md5(string_agg((to_jsonb(x) - 'last_used_at')::text, ',' ORDER BY id))"
          : "max(xmin::text::bigint)";
      return `SELECT '${name}' AS name, concat(count(*), ' rows, ', ${last}) AS rows FROM ${name} x`;
    });
    const { rows } = await pool.query<{ name: string; rows: string }>(each.join(" UNION ALL "));
    return Object.fromEntries(rows.map((row) => [row.name, row.rows]));
  }

  /** How many rows a table has. */
  async countRows(table: string): Promise<number> {
    const { pool } = (await this.services()).db;
    return (await pool.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${table}`)).rows[0]?.n ?? 0;
  }

  forbidInLog(secret: string): void {
    this.#secrets.add(secret);
  }

  async request(sent: HttpRequest): Promise<HttpResponse> {
    const { method = "GET", path, key, body, chunked = false } = sent;
    const headers: OutgoingHttpHeaders = {};
    if (key) headers.Authorization = `Bearer ${key}`;
    const bytes =
      body === undefined || Buffer.isBuffer(body) || typeof body === "string" ? body : JSON.stringify(body);
    if (bytes !== undefined) headers["Content-Type"] = "application/json";
    if (bytes !== undefined && !chunked) headers["Content-Length"] = Buffer.byteLength(bytes);
    for (const [name, value] of Object.entries(sent.headers ?? {})) {
      for (const known of Object.keys(headers)) {
        if (known.toLowerCase() === name.toLowerCase()) delete headers[known];
      }
      if (value.length > 0 || typeof value === "string")
        headers[name] = typeof value === "string" ? value : [...value];
    }
    const answer = await new Promise<HttpResponse>((resolve, reject) => {
      const outgoing = sendHttp(
        { host: "127.0.0.1", port: this.port, agent: this.#agent, method, path, headers },
        (incoming) => {
          const chunks: Buffer[] = [];
          incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
          incoming.once("error", reject);
          incoming.once("end", () => {
            const text = Buffer.concat(chunks).toString();
            const { statusCode = 0 } = incoming;
            resolve({ status: statusCode, headers: flat(incoming.headers), text, json: parsed(text) });
          });
        },
      );
      outgoing.setTimeout(15_000, () => outgoing.destroy(new Error(`no answer to ${method} ${path}`)));
      outgoing.once("error", reject);
      if (chunked && bytes !== undefined) {
        // Two writes, so that there are two chunks at least.
        const whole = Buffer.from(bytes as string);
        const middle = Math.ceil(whole.length / 2);
        outgoing.write(whole.subarray(0, middle));
        outgoing.end(whole.subarray(middle));
      } else outgoing.end(bytes);
    });
    this.checkResponse(answer, method, path);
    return answer;
  }

  /** A connection of its own, to write bytes to. */
  async openConnection(): Promise<RawConnection> {
    const wire = await RawConnection.open(this.port, (...answer) => this.checkResponse(...answer));
    this.#wires.add(wire);
    return wire;
  }

  /** Writes bytes and reads that many answers; `methods` of the requests tell how an answer ends. */
  async sendRaw(bytes: string | Buffer, methods: readonly string[] = ["GET"]): Promise<HttpResponse[]> {
    const wire = await this.openConnection();
    wire.write(bytes);
    const answers: HttpResponse[] = [];
    for (const method of methods) answers.push(await wire.readResponse(method));
    wire.close();
    return answers;
  }

  /** Throws unless the answer keeps all that every answer promises. */
  checkResponse(answer: HttpResponse, method: string, path: string): void {
    if (BELOW_V1.test(path)) {
      validateResponse(method, path, answer.status, answer.headers, answer.json);
    }
    const { headers, status } = answer;
    const id = headers["x-correlation-id"] ?? "";
    expect(id, "X-Correlation-Id").toMatch(UUID);
    expect(this.#ids.has(id), "a fresh correlation id").toBe(false);
    const faults = (answer.json as { errors?: FieldError[] } | undefined)?.errors ?? [];
    this.#ids.set(id, { handled: !faults.some(({ field }) => field === "request") });
    expect(headers["x-powered-by"]).toBeUndefined();
    if (BELOW_V1.test(path) || (status >= 400 && path !== "/readyz")) {
      expect(headers["cache-control"], "Cache-Control").toBe("no-store");
      expect(headers.etag, "ETag").toBeUndefined();
    }
    if (status === 204 || method === "HEAD") expect(answer.text).toBe("");
    if (status !== 204) {
      expect(headers["content-type"]).toBe("application/json; charset=utf-8");
      if (method !== "HEAD") expect(headers["content-length"]).toBe(String(Buffer.byteLength(answer.text)));
    }
    if (status >= 400) holdRefusal(answer, method, path, id);
    else if (RESOURCES.test(path) && status !== 204 && method !== "HEAD") holdProjections(answer.json);
  }

  /** Stops the gateway as its process would; connections of the test are left to it. */
  shutDown(): Promise<void> {
    this.#leaving ??= this.#gateway?.stop() ?? Promise.resolve();
    return this.#leaving;
  }

  /** Stops it, with all connections of the test, and holds the log against what every log promises. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.#agent.destroy();
    for (const wire of this.#wires) wire.close();
    await this.shutDown();
    const text = this.log.map((line) => JSON.stringify(line)).join("\n");
    for (const secret of this.#secrets) {
      expect(text.includes(secret), `a log line with ${secret.slice(0, 12)}…`).toBe(false);
    }
    const ends = this.log.filter(({ msg }) => msg === "request").map(({ correlationId }) => correlationId);
    expect(new Set(ends).size).toBe(ends.length);
    const known = new Set(ends);
    for (const [id, { handled }] of this.#ids) {
      if (handled) expect(known.has(id), `a log line of the request ${id}`).toBe(true);
    }
    for (const line of this.log.filter(({ msg }) => msg.startsWith("request"))) {
      expect(line.correlationId).toMatch(UUID);
    }
  }

  /** The log lines of one request. */
  async logLinesOf(answer: HttpResponse): Promise<LogLine[]> {
    const id = answer.headers["x-correlation-id"];
    const find = () => this.log.filter(({ correlationId }) => correlationId === id);
    await expect.poll(() => find().some(({ msg }) => msg === "request")).toBe(true);
    return find();
  }
}

const BELOW_V1 = /^\/v1(?![\w-])/;

const STATUSES: Record<ErrorCode, number[]> = {
  UNAUTHENTICATED: [401],
  FORBIDDEN: [403],
  RESOURCE_NOT_FOUND: [404, 405],
  INVALID_CURSOR: [400],
  VALIDATION_ERROR: [400, 408, 415, 417, 431],
  PAYLOAD_TOO_LARGE: [413],
  IDEMPOTENCY_KEY_REUSED: [422],
  RATE_LIMITED: [429],
  INTERNAL_ERROR: [500, 503],
};

/** Wording of libraries and of what lies below the interface, which no client may see. */
const INSIDES =
  /\bzod|prisma|trpc|express|\bpg\b|postgres|graphile|node_modules|\bselect\b|\binsert\b|\bsql\b|ECONN|HPE_|invalid input|expected .*received|unexpected token|cannot read|undefined|\.[jt]s\b|\n|\s+at .*:\d/i;

function holdRefusal(answer: HttpResponse, method: string, path: string, id: string): void {
  const { headers, status, json } = answer;
  if (status === 401) expect(headers["www-authenticate"]).toBe("Bearer");
  if (status === 405) expect(headers.allow).toMatch(/^[A-Z]+(, [A-Z]+)*$/);
  if (status === 429 || status === 503) expect(headers["retry-after"]).toMatch(/^[1-9]\d*$/);
  if (method === "HEAD" || path === "/readyz") return;
  const { code, message, correlationId, errors, ...more } = json as {
    code: ErrorCode;
    message: string;
    correlationId: string;
    errors?: FieldError[];
  };
  expect(more).toEqual({});
  expect(correlationId).toBe(id);
  expect(Object.keys(ERRORS)).toContain(code);
  expect(STATUSES[code]).toContain(status);
  expect(message).toMatch(/\S/);
  expect(message).not.toMatch(INSIDES);
  expect(errors !== undefined).toBe(code === "VALIDATION_ERROR");
  if (!errors) return;
  expect(errors.length).toBeGreaterThan(0);
  expect(new Set(errors.map(({ field }) => field)).size, "one entry a field").toBe(errors.length);
  for (const error of errors) {
    expect(Object.keys(error).sort()).toEqual(["field", "issue"]);
    expect(typeof error.field).toBe("string");
    expect(error.issue).toMatch(/\S/);
    expect(error.issue).not.toMatch(INSIDES);
  }
}

/** Paths that return forms or listings. What others return is held against the document alone. */
const RESOURCES = /^\/v1\/(forms|listings)(\/[^/]+)?(\?|$)/;

function holdProjections(json: unknown): void {
  const value = json as Record<string, unknown>;
  if (!Array.isArray(value.items)) {
    holdProjection(value);
    return;
  }
  expect(Object.keys(value)).toEqual(["items", "nextCursor"]);
  expect(value.nextCursor === null || matches(/^[\w-]+$/)(value.nextCursor)).toBe(true);
  for (const item of value.items) holdProjection(item);
}

function holdProjection(value: Record<string, unknown>): void {
  const table = "timezone" in value ? LISTING_FIELDS : FORM_FIELDS;
  expect(Object.keys(value).sort()).toEqual(Object.keys(table).sort());
  for (const [field, holds] of Object.entries(table)) {
    expect(holds(value[field]), `${field}: ${JSON.stringify(value[field])}`).toBe(true);
  }
}

const flat = (headers: IncomingHttpHeaders): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(", ") : String(value),
    ]),
  );

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

type Judge = (answer: HttpResponse, method: string, path: string) => void;

/** One connection, byte for byte. */
export class RawConnection {
  /** Settles when the connection has ended, with the time it then was (as of `performance.now`). */
  readonly closed: Promise<number>;
  /** Interim answers, such as 100. */
  readonly interimStatuses: number[] = [];
  #received = Buffer.alloc(0);
  #ended = false;
  #wake = () => {};
  readonly #socket: Socket;
  readonly #judge: Judge;

  private constructor(socket: Socket, judge: Judge) {
    this.#socket = socket;
    this.#judge = judge;
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#wake();
    });
    socket.on("error", () => {});
    this.closed = new Promise((resolve) => {
      socket.once("close", () => {
        this.#ended = true;
        this.#wake();
        resolve(performance.now());
      });
    });
  }

  static open(port: number, judge: Judge): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1");
      socket.once("error", reject);
      socket.once("connect", () => resolve(new RawConnection(socket, judge)));
    });
  }

  write(bytes: string | Buffer): void {
    this.#socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  }

  /** Sends no more, and goes on reading. */
  end(): void {
    this.#socket.end();
  }

  close(): void {
    this.#socket.destroy();
  }

  /** The next whole answer; rejects where the connection ends before it, or `patience` ms pass. */
  async readResponse(method = "GET", path = "/v1", patience = 15_000): Promise<HttpResponse> {
    const answer = await this.#parse(method, performance.now() + patience);
    this.#judge(answer, method, path);
    return answer;
  }

  async #parse(method: string, deadline: number): Promise<HttpResponse> {
    for (;;) {
      const end = this.#received.indexOf("\r\n\r\n");
      if (end === -1) {
        await this.#more(deadline);
        continue;
      }
      const [line = "", ...lines] = this.#received.subarray(0, end).toString("latin1").split("\r\n");
      const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(line)?.[1]);
      const headers: Record<string, string> = {};
      for (const header of lines) {
        const [, name = "", value = ""] = /^([\w-]+): ?(.*)$/.exec(header) ?? [];
        const known = headers[name.toLowerCase()];
        headers[name.toLowerCase()] = known === undefined ? value : `${known}, ${value}`;
      }
      const length =
        method === "HEAD" || status < 200 || status === 204 ? 0 : Number(headers["content-length"]);
      expect(Number.isInteger(length), `Content-Length of ${line}`).toBe(true);
      const whole = end + 4 + length;
      if (this.#received.length < whole) {
        await this.#more(deadline);
        continue;
      }
      const body = this.#received.subarray(end + 4, whole).toString();
      this.#received = this.#received.subarray(whole);
      if (status < 200) this.interimStatuses.push(status);
      else return { status, headers, text: body, json: parsed(body) };
    }
  }

  async #more(deadline: number): Promise<void> {
    if (this.#ended) throw new Error("The connection ended before a whole answer.");
    const left = deadline - performance.now();
    if (left <= 0) throw new Error("No whole answer in time.");
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, left);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** A TCP proxy in front of the database that can be cut off, or frozen: connections stay open, nothing passes. */
export class DatabaseProxy {
  readonly url: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #mode: "pass" | "cut" | "freeze" = "pass";

  private constructor(server: Server, url: string) {
    this.#server = server;
    this.url = url;
  }

  static async start(databaseUrl: string): Promise<DatabaseProxy> {
    const target = new URL(databaseUrl);
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    if (typeof address !== "object" || !address) throw new Error("The proxy has no port.");
    const url = new URL(databaseUrl);
    url.hostname = "127.0.0.1";
    url.port = String(address.port);
    const proxy = new DatabaseProxy(server, url.href);
    server.on("connection", (near) => proxy.#join(near, target));
    return proxy;
  }

  #join(near: Socket, target: URL): void {
    if (this.#mode === "cut") {
      near.destroy();
      return;
    }
    const far = connect(Number(target.port || 5432), target.hostname);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(from);
      from.on("data", (chunk) => {
        if (this.#mode === "pass") to.write(chunk);
      });
      from.on("error", () => {});
      from.once("close", () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
  }

  /** Connections end, and new ones are refused. */
  cut(): void {
    this.#mode = "cut";
    for (const socket of this.#sockets) socket.destroy();
  }

  freeze(): void {
    this.#mode = "freeze";
  }

  /** Passes again; what was frozen is lost. */
  restore(): void {
    this.#mode = "pass";
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}

let day = 0;

/** A body that no other call gives. */
export function uniqueStay(listingId: string, fields: Record<string, unknown> = {}) {
  day += 1;
  return {
    listingId,
    checkInDate: new Date(Date.UTC(2031, 0, day, 15)).toISOString(),
    checkOutDate: new Date(Date.UTC(2031, 0, day + 2, 10)).toISOString(),
    numberOfGuests: 2,
    ...fields,
  };
}

/** The rejected fields of a VALIDATION_ERROR, in the order they came. */
export const errorFieldsOf = (answer: HttpResponse): string[] =>
  ((answer.json as { errors?: FieldError[] } | undefined)?.errors ?? []).map(({ field }) => field);

export const errorCodeOf = (answer: HttpResponse): string | undefined =>
  (answer.json as { code?: string } | undefined)?.code;
