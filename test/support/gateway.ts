import { Agent, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http";
import { type Logger, pino } from "pino";
import { expect } from "vitest";
import { type Gateway, startGateway } from "../../gateway/processes/gateway.js";
import { LOG_OPTIONS } from "../../gateway/runtime/log.js";
import type { Services } from "../../server/access/context.js";
import { readSettings, type Settings } from "../../server/config.js";
import type { FieldError } from "../../server/errors.js";
import { afterFile } from "./after-file.js";
import { createTestDatabase, LONG_DATABASE_TIMEOUTS } from "./database.js";
import { makeKey, makeUser, openTestServices, TEST_SECRET } from "./factories.js";
import { exchange } from "./http-client.js";
import { UUID } from "./public-fields.js";
import { RawConnection } from "./raw-connection.js";
import { type HttpResponse, parseJson } from "./response.js";
import { checkResponse } from "./response-checks.js";

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

const DEFAULT_SETTINGS = {
  HOST: "127.0.0.1",
  PORT: 0,
  APP_SECRETS: TEST_SECRET,
  RATE_LIMIT_MAX: 1e9,
  BAD_KEY_LIMIT_MAX: 1e9,
  ...LONG_DATABASE_TIMEOUTS,
};

/** Starts the real gateway on a free port. Rate limits are practically off by default. */
export async function startTestGateway(settings: Record<string, string | number> = {}): Promise<TestGateway> {
  const DATABASE_URL = settings.DATABASE_URL ?? (await createTestDatabase()).url;
  const texts = Object.entries({ ...DEFAULT_SETTINGS, ...settings, DATABASE_URL });
  const env = Object.fromEntries(texts.map(([name, value]) => [name, String(value)]));
  const log: LogLine[] = [];
  const logger = pino({ ...LOG_OPTIONS, level: "trace" }, { write: (line: string) => void log.push(JSON.parse(line)) });
  const gateway = new TestGateway(readSettings(env), logger, log);
  await gateway.start();
  afterFile(() => gateway.stop());
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
         WHERE schemaname = 'public' AND tablename <> 'secret_uses' ORDER BY 1`,
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
    return (await pool.query(`SELECT count(*)::int AS n FROM ${table}`)).rows[0].n;
  }

  /** Fails the test on `stop` if a log line contains this. */
  forbidInLog(secret: string): void {
    this.#secrets.add(secret);
  }

  async request(options: HttpRequest): Promise<HttpResponse> {
    const { method = "GET", path, key, body, chunked = false } = options;
    const headers: OutgoingHttpHeaders = {};
    if (key) headers.Authorization = `Bearer ${key}`;
    const bytes = body === undefined || Buffer.isBuffer(body) || typeof body === "string" ? body : JSON.stringify(body);
    if (bytes !== undefined) headers["Content-Type"] = "application/json";
    if (bytes !== undefined && !chunked) headers["Content-Length"] = Buffer.byteLength(bytes);
    for (const [name, value] of Object.entries(options.headers ?? {})) {
      for (const known of Object.keys(headers)) {
        if (known.toLowerCase() === name.toLowerCase()) delete headers[known];
      }
      if (value.length > 0 || typeof value === "string") headers[name] = typeof value === "string" ? value : [...value];
    }
    const parts = bytes === undefined ? [] : chunked ? halve(Buffer.from(bytes as string)) : [bytes];
    const target = { host: "127.0.0.1", port: this.port, agent: this.#agent, method, path, headers };
    const { status, headers: received, text } = await exchange(target, parts, 15_000);
    const response = { status, headers: joinRepeatedHeaders(received), text, json: parseJson(text) };
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
    checkResponse(response, method, path);
    const id = response.headers["x-correlation-id"] ?? "";
    expect(this.#ids.has(id), "a new correlation id").toBe(false);
    const fieldErrors = (response.json as { errors?: FieldError[] } | undefined)?.errors ?? [];
    this.#ids.set(id, { isHandled: !fieldErrors.some(({ field }) => field === "request") });
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
    const loggedIds = this.log.filter(({ msg }) => msg === "request").map(({ correlationId }) => correlationId);
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

/** Two parts, so that a chunked body has at least two chunks. */
function halve(bytes: Buffer): Buffer[] {
  const middle = Math.ceil(bytes.length / 2);
  return [bytes.subarray(0, middle), bytes.subarray(middle)];
}

const joinRepeatedHeaders = (headers: IncomingHttpHeaders): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : String(value)]),
  );
