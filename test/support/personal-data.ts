import { expect, vi } from "vitest";
import type { Services } from "../../server/access/context.js";
import { seal } from "../../server/encryption.js";
import { generateKey } from "../../server/keys/authenticator.js";
import { openTestCore } from "./core.js";
import { TEST_SECRET } from "./factories.js";
import { commandEnv, mailEnv, startMailServer } from "./mail-server.js";
import { spawnCli } from "./processes.js";
import { runSql } from "./run-sql.js";
import { fixedStay } from "./stays.js";
import { validateResponse } from "./validate-response.js";

const GUESTS = [
  "Ordinary.O'Guest+stay@first-mail.example.com",
  "Rejected.Guest@second-mail.example.com",
  "Deferred.Guest@third-mail.example.com",
  "Erased.Guest@fourth-mail.example.com",
  "Mistyped.Guest@fifth-mail.example.com",
] as const;
const HOST = "host.of.the.output@people.test";
const TOKEN = "an-internal-token-for-tests-of-more-than-32-characters";

/** Texts that must not be found, by a label. */
type Secrets = Record<string, string>;

/**
 * Starts a gateway and a worker, makes them handle keys and addresses in every way (creates, replays, updates, errors,
 * internal calls, sent, rejected and deferred messages, an erasure), and returns what they wrote. `env` overrides their
 * settings.
 */
export async function captureOutput(env: Record<string, string> = {}) {
  const core = await openTestCore(env.DATABASE_URL ? { DATABASE_URL: env.DATABASE_URL } : {});
  const { services, owner, operator, sql, makeKey } = core;
  await core.makeUser({ email: HOST, name: HOST });
  const { key } = await makeKey(owner.userId, { label: HOST });
  const readOnly = await makeKey(owner.userId, { mode: "READ_ONLY" });
  const revoked = await makeKey(owner.userId);
  await operator.keys.revoke({ id: revoked.id });
  const unknown = generateKey("READ_WRITE");
  const [ordinary, rejected, deferred, erased, mistyped] = GUESTS;
  const mailServer = await startMailServer({
    onRcptTo: ({ address }, _, done) => {
      const code = { [rejected]: 550, [deferred]: 451 }[address];
      if (!code) return done();
      return done(Object.assign(new Error(`<${address}> ${address.split("@")}`), { responseCode: code }));
    },
  });
  const common = commandEnv(services, { LOG_LEVEL: "trace", INTERNAL_TOKEN: TOKEN, INTERNAL_PORT: "0", ...env });
  const gateway = spawnCli(["serve", "--no-worker", "--port", "0"], { env: common });
  const [, url = ""] = await gateway.waitForLine(/^Listening on ([^;]+);/, 60_000);
  const [, internalUrl = ""] = await gateway.waitForLine(/"url":"([^"]+)".*"msg":"listening for internal tools"/);
  const worker = spawnCli(["worker"], { env: { ...common, ...mailEnv(mailServer.url) } });
  let responses = "";
  /** Sends a request, by default with the key. Its response may name what was sent. */
  const request = async (method: string, path: string, body?: unknown, sentKey = key, headers = {}) => {
    const response = await fetch(url + path, {
      method,
      headers: { Authorization: `Bearer ${sentKey}`, "Content-Type": "application/json", ...headers },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const json = text ? JSON.parse(text) : undefined;
    validateResponse(method, path, response.status, Object.fromEntries(response.headers), json);
    return {
      status: response.status,
      json,
      shown: `${response.status} ${JSON.stringify([...response.headers])} ${text}`,
    };
  };
  const send = async (...args: Parameters<typeof request>) => {
    const response = await request(...args);
    responses += `${response.shown}\n`;
    return response;
  };
  const post = (body: unknown, headers = {}) => send("POST", "/v1/forms", body, key, headers);
  let numberOfGuests = 0;
  const body = (guestEmail: string) => fixedStay(owner.listingId, { guestEmail, numberOfGuests: ++numberOfGuests });
  const formIds: string[] = [];
  for (const guest of [ordinary, rejected, deferred, erased]) {
    const stay = body(guest);
    const { status, json } = await post(stay, { "Idempotency-Key": `key-${numberOfGuests}` });
    const replay = await post(stay);
    // An update ignores the header. That of a create is stored.
    const changed = { ...stay, numberOfGuests: 50 + numberOfGuests };
    const ignored = { "Idempotency-Key": `${guest} ${key}` };
    const update = await send("PUT", `/v1/forms/${json.id}`, changed, key, ignored);
    expect([status, replay.status, update.status]).toEqual([201, 201, 200]);
    formIds.push(json.id);
  }
  const valid = body(ordinary);
  const basic = `Basic ${Buffer.from(`${HOST}:${key}`).toString("base64")}`;
  const errors = [
    await post({ ...valid, guestEmail: `${mistyped}@@` }),
    await post({ ...valid, listingId: mistyped, checkInDate: mistyped, numberOfGuests: mistyped }),
    await post({ ...valid, listingId: key, guestEmail: `${mistyped} ${key}` }),
    await post(JSON.stringify(valid).slice(0, -2)),
    await post(`${mistyped} ${key}`, { "Content-Type": key }),
    await post(valid, { "Idempotency-Key": "key-1" }),
    await post({ ...valid, checkOutDate: valid.checkInDate }),
    await post({ ...valid, guestEmail: [mistyped] }),
    await post(`{"guestEmail": "${mistyped}"`),
    await send("POST", "/v1/forms", valid, readOnly.key),
    await send("POST", "/v1/forms", valid, revoked.key),
    await send("POST", "/v1/forms", valid, `${key}x`),
    await send("PURGE", "/v1/forms", undefined, key, { [key]: mistyped, Origin: `https://${key}` }),
    await send("GET", `/v1/forms/${mistyped}`),
    await send("GET", `/v1/forms/${encodeURIComponent(mistyped)}?email=${mistyped}`),
    await send("GET", `/v1/forms?cursor=${mistyped}`),
    await send("GET", `/v1/forms?listingId=${encodeURIComponent(mistyped)}&limit=${key}`),
    await send("GET", `/v1/listings/${key}`),
    await send("GET", `/v1/nothing/${mistyped}?key=${key}`),
    await send("GET", `/${key}`, undefined, key, {
      "User-Agent": key,
      Referer: `https://x.test/?${mistyped}`,
      Cookie: key,
    }),
    await send("GET", `/v1/${TOKEN}?token=${TOKEN}`, undefined, TOKEN, { "X-API-Key": TOKEN, "User-Agent": TOKEN }),
    await send("GET", "/v1/listings", undefined, unknown, { "X-API-Key": key, traceparent: key }),
    await send("GET", "/v1/listings", undefined, unknown, { Authorization: basic }),
    await request("POST", "/v1/forms", { ...valid, [mistyped]: key, [key]: mistyped }),
    await request("GET", `/v1/forms?${mistyped}=${key}&cursor=${key}`),
  ];
  expect(errors.filter(({ status }) => status < 400)).toEqual([]);
  await send("GET", "/v1/forms");
  await send("GET", "/v1/listings");

  const callInternal = async (path: string, init: RequestInit = {}) => {
    const headers = { Authorization: `Bearer ${TOKEN}`, "Content-Type": "application/json", ...init.headers };
    return (await fetch(internalUrl + path, { ...init, headers })).status;
  };
  const userOf = (email: string) => ({ method: "POST", body: JSON.stringify({ email }) });
  // Error messages of Postgres quote values.
  await sql(`
    CREATE FUNCTION complain() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'no % and no %', new.email, '${key}' USING DETAIL = 'Key (email)=(' || new.email || ')'; END $$;
    CREATE TRIGGER complain BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION complain()`);
  expect(await callInternal("/trpc/users.create", userOf(mistyped))).toBe(500);
  await sql("DROP FUNCTION complain CASCADE");
  const find = `/trpc/users.find?input=${encodeURIComponent(JSON.stringify({ user: HOST }))}`;
  expect(await callInternal(find)).toBe(200);
  const rejectedCalls = [
    await callInternal("/trpc/users.create", userOf(HOST)),
    await callInternal("/trpc/keys.revoke", { method: "POST", body: JSON.stringify({ id: key }) }),
    await callInternal("/trpc/listings.list", { headers: { "X-User-Id": HOST } }),
    await callInternal("/trpc/users.list", { headers: { "X-User-Id": TOKEN, Cookie: TOKEN } }),
    await callInternal(`/trpc/${key}?input=${mistyped}`),
    await callInternal("/trpc/keys.list", { headers: { Authorization: `Bearer ${key}` } }),
    await callInternal("/trpc/forms.create", { method: "POST", body: TOKEN }),
    await callInternal(`/${TOKEN}?token=${TOKEN}`, { headers: { Authorization: `Basic ${TOKEN}` } }),
  ];
  expect(rejectedCalls.filter((status) => status < 400)).toEqual([]);
  const callConsole = (method: string, path: string, body?: object, headers: Record<string, string> = {}) =>
    fetch(`${internalUrl}/console${path}`, {
      method,
      headers: { "Content-Type": "application/json", "Sec-Fetch-Site": "same-origin", ...headers },
      ...(body && { body: JSON.stringify(body) }),
    });
  const signIn = await callConsole("POST", "/session", { token: TOKEN, name: "Ada" });
  const [Cookie = "", session = ""] = /\w+=([\w-]{86})/.exec(signIn.headers.get("set-cookie") ?? "") ?? [];
  const consoleCalls = [
    signIn,
    await callConsole("POST", "/trpc/users.find", { user: HOST }, { Cookie }),
    await callConsole("GET", `/forms/${TOKEN}?token=${TOKEN}&session=${session}`),
    await callConsole("DELETE", "/session", undefined, { Cookie }),
    await callConsole("POST", "/session", { token: key, name: "Ada" }),
    await callConsole("POST", "/session", { token: session, name: TOKEN }),
    await callConsole("POST", "/session", { token: TOKEN, name: "Ada", [TOKEN]: session }),
    await callConsole("POST", `/trpc/${TOKEN}`, {}, { Cookie, Origin: TOKEN }),
    await callConsole("POST", "/session", { token: TOKEN }, { "Sec-Fetch-Site": TOKEN }),
  ];
  expect(consoleCalls.map(({ status }) => status)).toEqual([204, 200, 200, 204, 401, 401, 400, 401, 403]);

  const states = async () => {
    const emails = await core.listUnsent();
    return Object.fromEntries(emails.map(({ formId, state }) => [formIds.indexOf(formId ?? ""), state]));
  };
  await vi.waitFor(async () => expect(await states()).toEqual({ 1: "failed", 2: "retrying" }), {
    timeout: 60_000,
    interval: 100,
  });
  expect(mailServer.received.map(({ to }) => to[0]).toSorted()).toEqual([erased, ordinary]);
  expect(await operator.people.erase({ email: erased })).toMatchObject({ forms: 1 });
  await mailServer.close();
  const results = [await gateway.stop(), await worker.stop()];
  const halves = GUESTS.flatMap((guest) => guest.split("@"));
  const keys = [key, readOnly.key, revoked.key, unknown].flatMap((each) => [each, each.slice(12)]);
  const label = (secrets: string[]): Secrets =>
    Object.fromEntries(secrets.map((secret, index) => [`${index}: ${secret.slice(0, 8)}…`, secret]));
  return {
    databaseUrl: services.db.url,
    /** Output of the gateway and the worker. */
    logs: results.map(({ stdout, stderr }) => stdout + stderr).join("\n"),
    /** Lines of their logs. */
    logLines: results.flatMap(({ stderr }) => stderr.trimEnd().split("\n")),
    /** Statuses, headers and bodies of all responses whose requests have no secret as the name of a field. */
    responses,
    /** Must appear nowhere. */
    secrets: label([...GUESTS, ...halves, ...keys, TEST_SECRET, TOKEN, session]),
    /** Must not be logged, but is stored. */
    host: label([HOST]),
  };
}

/** Returns the labels of the secrets in the text: in any case, URL-encoded, in hex, or in base64 at any offset. */
export function findSecrets(text: string, secrets: Secrets): string[] {
  const lower = text.toLowerCase();
  const isIn = (secret: string) =>
    [secret, encodeURIComponent(secret)].some((form) => lower.includes(form.toLowerCase())) ||
    [secret, secret.toLowerCase()].some(
      (form) =>
        lower.includes(Buffer.from(form).toString("hex")) || base64Variants(form).some((part) => text.includes(part)),
    );
  return Object.keys(secrets).filter((name) => isIn(secrets[name] ?? ""));
}

/** Returns the base64 of a secret at each of the three offsets, without characters that depend on its neighbors. */
function base64Variants(secret: string): string[] {
  return ["base64", "base64url"].flatMap((encoding) =>
    [0, 1, 2].map((before) => {
      const text = Buffer.from(" ".repeat(before) + secret).toString(encoding as "base64");
      return text.replace(/=+$/, "").slice(before === 0 ? 0 : before + 1, -2);
    }),
  );
}

/** Gives the forms these addresses and unsent emails again, and forgets all erasures, as a restore does. */
export async function restoreAddresses({ db, keyring }: Services, addresses: Record<string, string>): Promise<void> {
  for (const [id, address] of Object.entries(addresses)) {
    const sealed = seal(keyring.email, address, id);
    await db.pool.query("UPDATE forms SET guest_email = $2 WHERE id = $1", [id, sealed]);
    const enqueue =
      "INSERT INTO emails (kind, form_id, tenant_id, check_in_date, correlation_id) VALUES ('invitation', $1, $1, now(), $1)";
    await db.pool.query(enqueue, [id]);
  }
  await db.pool.query("TRUNCATE erasures");
}

/** Returns the rows of every table as text, with bytes in hex. */
export async function readAllRows(databaseUrl: string): Promise<Map<string, string>> {
  const tables = await runSql<{ name: string }>(
    databaseUrl,
    `SELECT c.oid::regclass::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')`,
  );
  const found = new Map<string, string>();
  for (const { name } of tables) {
    const rows = await runSql<{ row: string }>(databaseUrl, `SELECT t::text AS row FROM ${name} t`);
    found.set(name, rows.map(({ row }) => row).join("\n"));
  }
  return found;
}

/** Returns the files of all tables and indexes, which a physical backup copies, as text of one character per byte. */
export async function readDataFiles(databaseUrl: string): Promise<Map<string, string>> {
  await runSql(databaseUrl, "CHECKPOINT");
  const rows = await runSql<{ name: string; bytes: Buffer }>(
    databaseUrl,
    `SELECT c.oid::regclass::text AS name, pg_read_binary_file(pg_relation_filepath(c.oid)::text) AS bytes
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'i', 'm', 't') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
       AND NOT (n.nspname = 'pg_toast' AND c.oid < 16384)`,
  );
  return new Map(rows.map(({ name, bytes }) => [name, bytes.toString("latin1")]));
}
