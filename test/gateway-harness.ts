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

/** An HTTP response as received. */
export interface HttpResponse {
  status: number;
  /** Names in lower case. The values of a repeated header are joined with a comma and a space. */
  headers: Record<string, string>;
  text: string;
  json: unknown;
}

/** A request for the client of node:http. */
export interface HttpRequest {
  method?: string;
  path: string;
  /** Sent as `Authorization: Bearer …`. */
  key?: string | null | undefined;
  /** A list sends the header once per value. An empty list removes a default header. */
  headers?: Record<string, string | readonly string[]>;
  /** Bytes and text are sent as they are, anything else as JSON. `Content-Type` defaults to application/json. */
  body?: unknown;
  /** Sends the body in chunks, without a Content-Length. */
  chunked?: boolean;
}

export interface LogLine extends Record<string, unknown> {
  msg: string;
  level: number;
}

/** A user with a read-write and a read-only key. */
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

const DEFAULT_SETTINGS = {
  HOST: "127.0.0.1",
  PORT: 0,
  APP_SECRETS: TEST_SECRET,
  RATE_LIMIT_MAX: 1e9,
  BAD_KEY_LIMIT_MAX: 1e9,
  // Longer than the defaults, because many tests run in parallel.
  DATABASE_CONNECT_TIMEOUT_MS: 10_000,
  DATABASE_STATEMENT_TIMEOUT_MS: 10_000,
  DATABASE_LOCK_TIMEOUT_MS: 9_000,
};

/** Starts the real gateway on a free port. Rate limits are practically off by default. */
export async function startTestGateway(settings: Record<string, string | number> = {}): Promise<TestGateway> {
  const DATABASE_URL = settings.DATABASE_URL ?? (await createTestDatabase()).url;
  const texts = Object.entries({ ...DEFAULT_SETTINGS, ...settings, DATABASE_URL });
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

/** A gateway under test. Checks every response against the guarantees that hold for all responses. */
export class TestGateway {
  url = "";
  port = 0;
  readonly settings: Settings;
  readonly log: LogLine[];
  readonly #logger: Logger;
  #gateway: Gateway | undefined;
  #core: Promise<Services> | undefined;
  #shuttingDown: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #connections = new Set<RawConnection>();
  /** Must not appear in any log line. */
  readonly #secrets = new Set<string>();
  /** Per correlation id: whether a handler responded, and not the HTTP parser, which logs no request. */
  readonly #ids = new Map<string, { isHandled: boolean }>();
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

  /** Returns the core on the same database, opened on first use. */
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

  /** Returns a summary of each table that changes with every write, except to a key's `last_used_at`. */
  async snapshotTables(): Promise<Record<string, string>> {
    const { pool } = (await this.services()).db;
    this.#tables ??= (
      await pool.query<{ name: string }>(
        `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
         WHERE schemaname = 'public' ORDER BY 1`,
      )
    ).rows.map(({ name }) => name);
    const queries = this.#tables.map((name) => {
      const lastWrite =
        name === "public.api_keys"
          ? "md5(string_agg((to_jsonb(x) - 'last_used_at')::text, ',' ORDER BY id))"
          : "max(xmin::text::bigint)";
      return `SELECT '${name}' AS name, concat(count(*), ' rows, ', ${lastWrite}) AS rows FROM ${name} x`;
    });
    const { rows } = await pool.query<{ name: string; rows: string }>(queries.join(" UNION ALL "));
    return Object.fromEntries(rows.map((row) => [row.name, row.rows]));
  }

  async countRows(table: string): Promise<number> {
    const { pool } = (await this.services()).db;
    return (await pool.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${table}`)).rows[0]?.n ?? 0;
  }

  /** Fails the test on `stop` if a log line contains this. */
  forbidInLog(secret: string): void {
    this.#secrets.add(secret);
  }

  async request(options: HttpRequest): Promise<HttpResponse> {
    const { method = "GET", path, key, body, chunked = false } = options;
    const headers: OutgoingHttpHeaders = {};
    if (key) headers.Authorization = `Bearer ${key}`;
    const bytes =
      body === undefined || Buffer.isBuffer(body) || typeof body === "string" ? body : JSON.stringify(body);
    if (bytes !== undefined) headers["Content-Type"] = "application/json";
    if (bytes !== undefined && !chunked) headers["Content-Length"] = Buffer.byteLength(bytes);
    for (const [name, value] of Object.entries(options.headers ?? {})) {
      for (const known of Object.keys(headers)) {
        if (known.toLowerCase() === name.toLowerCase()) delete headers[known];
      }
      if (value.length > 0 || typeof value === "string")
        headers[name] = typeof value === "string" ? value : [...value];
    }
    const response = await new Promise<HttpResponse>((resolve, reject) => {
      const outgoing = sendHttp(
        { host: "127.0.0.1", port: this.port, agent: this.#agent, method, path, headers },
        (incoming) => {
          const chunks: Buffer[] = [];
          incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
          incoming.once("error", reject);
          incoming.once("end", () => {
            const text = Buffer.concat(chunks).toString();
            const { statusCode = 0 } = incoming;
            resolve({
              status: statusCode,
              headers: joinRepeatedHeaders(incoming.headers),
              text,
              json: parseJson(text),
            });
          });
        },
      );
      outgoing.setTimeout(15_000, () => outgoing.destroy(new Error(`no response to ${method} ${path}`)));
      outgoing.once("error", reject);
      if (chunked && bytes !== undefined) {
        // Two writes, so at least two chunks.
        const bodyBytes = Buffer.from(bytes as string);
        const middle = Math.ceil(bodyBytes.length / 2);
        outgoing.write(bodyBytes.subarray(0, middle));
        outgoing.end(bodyBytes.subarray(middle));
      } else outgoing.end(bytes);
    });
    this.checkResponse(response, method, path);
    return response;
  }

  /** Opens a new connection for raw bytes. */
  async openConnection(): Promise<RawConnection> {
    const connection = await RawConnection.open(this.port, (...response) => this.checkResponse(...response));
    this.#connections.add(connection);
    return connection;
  }

  /** Writes bytes and reads one response per method. The response to HEAD has no body. */
  async sendRaw(bytes: string | Buffer, methods: readonly string[] = ["GET"]): Promise<HttpResponse[]> {
    const connection = await this.openConnection();
    connection.write(bytes);
    const responses: HttpResponse[] = [];
    for (const method of methods) responses.push(await connection.readResponse(method));
    connection.close();
    return responses;
  }

  /** Throws if a guarantee that holds for every response is broken. */
  checkResponse(response: HttpResponse, method: string, path: string): void {
    if (V1_PATH.test(path)) {
      validateResponse(method, path, response.status, response.headers, response.json);
    }
    const { headers, status } = response;
    const id = headers["x-correlation-id"] ?? "";
    expect(id, "X-Correlation-Id").toMatch(UUID);
    expect(this.#ids.has(id), "a new correlation id").toBe(false);
    const fieldErrors = (response.json as { errors?: FieldError[] } | undefined)?.errors ?? [];
    this.#ids.set(id, { isHandled: !fieldErrors.some(({ field }) => field === "request") });
    expect(headers["x-powered-by"]).toBeUndefined();
    if (V1_PATH.test(path) || (status >= 400 && path !== "/readyz")) {
      expect(headers["cache-control"], "Cache-Control").toBe("no-store");
      expect(headers.etag, "ETag").toBeUndefined();
    }
    if (status === 204 || method === "HEAD") expect(response.text).toBe("");
    if (status !== 204) {
      expect(headers["content-type"]).toBe("application/json; charset=utf-8");
      if (method !== "HEAD") expect(headers["content-length"]).toBe(String(Buffer.byteLength(response.text)));
    }
    if (status >= 400) checkErrorResponse(response, method, path, id);
    else if (RESOURCE_PATH.test(path) && status !== 204 && method !== "HEAD") checkResources(response.json);
  }

  /** Stops the gateway as SIGTERM does, and leaves the test's connections open. */
  shutDown(): Promise<void> {
    this.#shuttingDown ??= this.#gateway?.stop() ?? Promise.resolve();
    return this.#shuttingDown;
  }

  /** Closes the test's connections, stops the gateway and checks its log. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.#agent.destroy();
    for (const connection of this.#connections) connection.close();
    await this.shutDown();
    const text = this.log.map((line) => JSON.stringify(line)).join("\n");
    for (const secret of this.#secrets) {
      expect(text.includes(secret), `a log line with ${secret.slice(0, 12)}…`).toBe(false);
    }
    const loggedIds = this.log
      .filter(({ msg }) => msg === "request")
      .map(({ correlationId }) => correlationId);
    expect(new Set(loggedIds).size).toBe(loggedIds.length);
    const logged = new Set(loggedIds);
    for (const [id, { isHandled }] of this.#ids) {
      if (isHandled) expect(logged.has(id), `a log line of the request ${id}`).toBe(true);
    }
    for (const line of this.log.filter(({ msg }) => msg.startsWith("request"))) {
      expect(line.correlationId).toMatch(UUID);
    }
  }

  /** Returns the log lines of one request, once it has ended. */
  async logLinesOf(response: HttpResponse): Promise<LogLine[]> {
    const id = response.headers["x-correlation-id"];
    const find = () => this.log.filter(({ correlationId }) => correlationId === id);
    await expect.poll(() => find().some(({ msg }) => msg === "request")).toBe(true);
    return find();
  }
}

const V1_PATH = /^\/v1(?![\w-])/;

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

/** Texts of libraries and internals, which no client may see. */
const INTERNAL_WORDING =
  /\bzod|prisma|trpc|express|\bpg\b|postgres|graphile|node_modules|\bselect\b|\binsert\b|\bsql\b|ECONN|HPE_|invalid input|expected .*received|unexpected token|cannot read|undefined|\.[jt]s\b|\n|\s+at .*:\d/i;

function checkErrorResponse(response: HttpResponse, method: string, path: string, id: string): void {
  const { headers, status, json } = response;
  if (status === 401) expect(headers["www-authenticate"]).toBe("Bearer");
  if (status === 405) expect(headers.allow).toMatch(/^[A-Z]+(, [A-Z]+)*$/);
  if (status === 429 || status === 503) expect(headers["retry-after"]).toMatch(/^[1-9]\d*$/);
  if (method === "HEAD" || path === "/readyz") return;
  const { code, message, correlationId, errors, ...others } = json as {
    code: ErrorCode;
    message: string;
    correlationId: string;
    errors?: FieldError[];
  };
  expect(others).toEqual({});
  expect(correlationId).toBe(id);
  expect(Object.keys(ERRORS)).toContain(code);
  expect(STATUSES[code]).toContain(status);
  expect(message).toMatch(/\S/);
  expect(message).not.toMatch(INTERNAL_WORDING);
  expect(errors !== undefined).toBe(code === "VALIDATION_ERROR");
  if (!errors) return;
  expect(errors.length).toBeGreaterThan(0);
  expect(new Set(errors.map(({ field }) => field)).size, "one entry per field").toBe(errors.length);
  for (const error of errors) {
    expect(Object.keys(error).sort()).toEqual(["field", "issue"]);
    expect(typeof error.field).toBe("string");
    expect(error.issue).toMatch(/\S/);
    expect(error.issue).not.toMatch(INTERNAL_WORDING);
  }
}

/** Paths that return forms or listings. Other responses are checked against the OpenAPI document only. */
const RESOURCE_PATH = /^\/v1\/(forms|listings)(\/[^/]+)?(\?|$)/;

function checkResources(json: unknown): void {
  const value = json as Record<string, unknown>;
  if (!Array.isArray(value.items)) {
    checkResource(value);
    return;
  }
  expect(Object.keys(value)).toEqual(["items", "nextCursor"]);
  expect(value.nextCursor === null || matches(/^[\w-]+$/)(value.nextCursor)).toBe(true);
  for (const item of value.items) checkResource(item);
}

function checkResource(value: Record<string, unknown>): void {
  const fields = "timezone" in value ? LISTING_FIELDS : FORM_FIELDS;
  expect(Object.keys(value).sort()).toEqual(Object.keys(fields).sort());
  for (const [field, isValid] of Object.entries(fields)) {
    expect(isValid(value[field]), `${field}: ${JSON.stringify(value[field])}`).toBe(true);
  }
}

const joinRepeatedHeaders = (headers: IncomingHttpHeaders): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(", ") : String(value),
    ]),
  );

function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

type ResponseCheck = (response: HttpResponse, method: string, path: string) => void;

/** A connection that sends raw bytes. */
export class RawConnection {
  /** Settles when the connection has closed, with the time (`performance.now`). */
  readonly closed: Promise<number>;
  /** Statuses of interim responses, such as 100. */
  readonly interimStatuses: number[] = [];
  #received = Buffer.alloc(0);
  #ended = false;
  #wake = () => {};
  readonly #socket: Socket;
  readonly #check: ResponseCheck;

  private constructor(socket: Socket, check: ResponseCheck) {
    this.#socket = socket;
    this.#check = check;
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

  static open(port: number, check: ResponseCheck): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1");
      socket.once("error", reject);
      socket.once("connect", () => resolve(new RawConnection(socket, check)));
    });
  }

  write(bytes: string | Buffer): void {
    this.#socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  }

  /** Half-closes the connection: stops sending, and keeps reading. */
  end(): void {
    this.#socket.end();
  }

  close(): void {
    this.#socket.destroy();
  }

  /** Reads the next response. Rejects if the connection closes first or on timeout. */
  async readResponse(method = "GET", path = "/v1", timeoutMs = 15_000): Promise<HttpResponse> {
    const response = await this.#parse(method, performance.now() + timeoutMs);
    this.#check(response, method, path);
    return response;
  }

  async #parse(method: string, deadline: number): Promise<HttpResponse> {
    for (;;) {
      const end = this.#received.indexOf("\r\n\r\n");
      if (end === -1) {
        await this.#waitForData(deadline);
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
      const responseEnd = end + 4 + length;
      if (this.#received.length < responseEnd) {
        await this.#waitForData(deadline);
        continue;
      }
      const body = this.#received.subarray(end + 4, responseEnd).toString();
      this.#received = this.#received.subarray(responseEnd);
      if (status < 200) this.interimStatuses.push(status);
      else return { status, headers, text: body, json: parseJson(body) };
    }
  }

  async #waitForData(deadline: number): Promise<void> {
    if (this.#ended) throw new Error("The connection closed before a complete response.");
    const remainingMs = deadline - performance.now();
    if (remainingMs <= 0) throw new Error("No complete response in time.");
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, remainingMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** A TCP proxy in front of the database that can drop its connections or freeze them (open, but nothing passes). */
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
    server.on("connection", (client) => proxy.#connect(client, target));
    return proxy;
  }

  #connect(client: Socket, target: URL): void {
    if (this.#mode === "cut") {
      client.destroy();
      return;
    }
    const database = connect(Number(target.port || 5432), target.hostname);
    for (const [from, to] of [
      [client, database],
      [database, client],
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

  /** Closes all connections and rejects new ones. */
  cut(): void {
    this.#mode = "cut";
    for (const socket of this.#sockets) socket.destroy();
  }

  freeze(): void {
    this.#mode = "freeze";
  }

  /** Passes new connections again. Frozen ones are closed. */
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

/** Returns a valid body that is different on every call. */
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

/** Returns the rejected fields of a VALIDATION_ERROR response, in order. */
export const errorFieldsOf = (response: HttpResponse): string[] =>
  ((response.json as { errors?: FieldError[] } | undefined)?.errors ?? []).map(({ field }) => field);

export const errorCodeOf = (response: HttpResponse): string | undefined =>
  (response.json as { code?: string } | undefined)?.code;
