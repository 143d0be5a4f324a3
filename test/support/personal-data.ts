import { expect, vi } from "vitest";
import { asOperator, listNotifications, makeKey, openTestServices, TEST_SECRET } from "./factories.js";
import { makeListingOwner } from "./listing-owner.js";
import { commandEnv, mailEnv, startMailServer } from "./mail-server.js";
import { spawnCli } from "./processes.js";
import { runSql } from "./run-sql.js";
import { fixedStay } from "./stays.js";
import { validateResponse } from "./validate-response.js";

const GUESTS = [
  "Ordinary.Guest@first-mail.example.com",
  "Rejected.Guest@second-mail.example.com",
  "Deferred.Guest@third-mail.example.com",
  "Erased.Guest@fourth-mail.example.com",
  "Mistyped.Guest@fifth-mail.example.com",
] as const;

export interface CapturedOutput {
  databaseUrl: string;
  /** Output of the gateway and the worker. */
  logs: string;
  /** Statuses, headers and bodies of all responses. */
  responses: string;
  /** Must appear nowhere: addresses, their halves, API keys and APP_SECRETS, by a label. */
  secrets: Record<string, string>;
}

/**
 * Starts a gateway and a worker, makes them handle keys and addresses in every way (creates, replays, updates, errors,
 * sent, rejected and deferred messages, an erasure), and returns what they wrote. `env` overrides their settings.
 */
export async function captureOutput(env: Record<string, string> = {}): Promise<CapturedOutput> {
  const services = await openTestServices(env.DATABASE_URL ? { DATABASE_URL: env.DATABASE_URL } : {});
  const owner = await makeListingOwner(services);
  const { key } = await makeKey(services, owner.userId);
  const readOnly = await makeKey(services, owner.userId, { mode: "READ_ONLY" });
  const revoked = await makeKey(services, owner.userId);
  await asOperator(services).keys.revoke({ id: revoked.id });
  const [ordinary, rejected, deferred, erased, mistyped] = GUESTS;
  const mailServer = await startMailServer({
    onRcptTo: ({ address }, _, done) => {
      const code = { [rejected]: 550, [deferred]: 451 }[address];
      if (!code) return done();
      return done(Object.assign(new Error(`<${address}> ${address.split("@")}`), { responseCode: code }));
    },
  });
  const common = commandEnv(services, { LOG_LEVEL: "trace", ...env });
  const gateway = spawnCli(["serve", "--no-worker", "--port", "0"], { env: common });
  const [, url = ""] = await gateway.waitForLine(/^Listening on ([^;]+);/, 60_000);
  const worker = spawnCli(["worker"], { env: { ...common, ...mailEnv(mailServer.url) } });
  let responses = "";
  const send = async (method: string, path: string, body?: unknown, sentKey = key, headers = {}) => {
    const response = await fetch(url + path, {
      method,
      headers: { Authorization: `Bearer ${sentKey}`, "Content-Type": "application/json", ...headers },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    responses += `${response.status} ${JSON.stringify([...response.headers])} ${text}\n`;
    const json = text ? JSON.parse(text) : undefined;
    validateResponse(method, path, response.status, Object.fromEntries(response.headers), json);
    return { status: response.status, json };
  };
  const post = (body: unknown, headers = {}) => send("POST", "/v1/forms", body, key, headers);
  let numberOfGuests = 0;
  const body = (guestEmail: string) => fixedStay(owner.listingId, { guestEmail, numberOfGuests: ++numberOfGuests });
  const formIds: string[] = [];
  for (const guest of [ordinary, rejected, deferred, erased]) {
    const request = body(guest);
    const { status, json } = await post(request, { "Idempotency-Key": `key-${numberOfGuests}` });
    expect(status).toBe(201);
    expect((await post(request)).status).toBe(201);
    expect(
      (await send("PUT", `/v1/forms/${json.id}`, { ...request, numberOfGuests: 50 + numberOfGuests })).status,
    ).toBe(200);
    formIds.push(json.id);
  }
  const valid = body(ordinary);
  const errors = [
    await post({ ...valid, guestEmail: `${mistyped}@@` }),
    await post({ ...valid, listingId: mistyped, checkInDate: mistyped, numberOfGuests: mistyped }),
    await post({ ...valid, listingId: key }),
    await post(JSON.stringify(valid).slice(0, -2)),
    await post(valid, { "Idempotency-Key": "key-1" }),
    await post({ ...valid, checkOutDate: valid.checkInDate }),
    await post({ ...valid, guestEmail: [mistyped] }),
    await post(`{"guestEmail": "${mistyped}"`),
    await send("POST", "/v1/forms", valid, readOnly.key),
    await send("POST", "/v1/forms", valid, revoked.key),
    await send("POST", "/v1/forms", valid, `${key}x`),
    await send("GET", `/v1/forms/${mistyped}`),
    await send("GET", `/v1/forms/${encodeURIComponent(mistyped)}`),
    await send("GET", `/v1/forms?cursor=${mistyped}`),
    await send("GET", `/v1/forms?listingId=${encodeURIComponent(mistyped)}&limit=${key}`),
    await send("GET", `/v1/listings/${key}`),
    await send("GET", `/v1/nothing/${mistyped}?key=${key}`),
  ];
  expect(errors.filter(({ status }) => status < 400)).toEqual([]);
  await send("GET", "/v1/forms");
  await send("GET", "/v1/listings");
  const states = async () => {
    const notifications = await listNotifications(services);
    return Object.fromEntries(notifications.map(({ formId, state }) => [formIds.indexOf(formId), state]));
  };
  await vi.waitFor(async () => expect(await states()).toEqual({ 1: "failed", 2: "retrying" }), {
    timeout: 60_000,
    interval: 100,
  });
  expect(mailServer.received.map(({ to }) => to[0]).toSorted()).toEqual([erased, ordinary]);
  expect(await asOperator(services).people.erase({ email: erased })).toMatchObject({ forms: 1 });
  await mailServer.close();
  const results = [await gateway.stop(), await worker.stop()];
  const halves = GUESTS.flatMap((guest) => guest.split("@"));
  const secrets = [...GUESTS, ...halves, key, readOnly.key, revoked.key, TEST_SECRET];
  return {
    databaseUrl: services.db.url,
    logs: results.map(({ stdout, stderr }) => stdout + stderr).join("\n"),
    responses: responses,
    secrets: Object.fromEntries(secrets.map((secret, index) => [`${index}: ${secret.slice(0, 8)}…`, secret])),
  };
}

/** Returns the labels of the secrets in the text: in any case, URL-encoded, in hex, or in base64 at any offset. */
export function findSecrets(text: string, secrets: Record<string, string>): string[] {
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
