import { execFile } from "node:child_process";
import { promisify } from "node:util";
import pg from "pg";
import { expect, vi } from "vitest";
import { asOperator, fixedStay, makeKey, openTestServices, TEST_SECRET } from "../factories.js";
import { spawnCli } from "../harness.js";
import { makeListingOwner } from "./listing-owner.js";
import { commandEnv, mailEnv, startMailServer } from "./mail-server.js";

const GUESTS = [
  "Ordinary.Guest@first-mail.example.com",
  "Refused.Guest@second-mail.example.com",
  "Deferred.Guest@third-mail.example.com",
  "Erased.Guest@fourth-mail.example.com",
  "Mistyped.Guest@fifth-mail.example.com",
] as const;

export interface CapturedOutput {
  databaseUrl: string;
  /** All that the gateway and the worker have written. */
  logs: string;
  /** The bodies and headers of all answers. */
  responses: string;
  /** What must be found nowhere: addresses, their halves, and keys, by a name. */
  secrets: Record<string, string>;
}

/**
 * Runs a gateway and a worker of their own through what they do with keys and addresses: creates, repeats, updates,
 * errors of every kind with either in it, messages taken, refused and deferred, an erasure.
 */
export async function captureOutput(env: Record<string, string> = {}): Promise<CapturedOutput> {
  const services = await openTestServices();
  const owner = await makeListingOwner(services);
  const { key } = await makeKey(services, owner.userId);
  const readOnly = await makeKey(services, owner.userId, { mode: "READ_ONLY" });
  const revoked = await makeKey(services, owner.userId);
  await asOperator(services).keys.revoke({ id: revoked.id });
  const [ordinary, refused, deferred, erased, mistyped] = GUESTS;
  const office = await startMailServer({
    onRcptTo: ({ address }, _, done) => {
      const code = { [refused]: 550, [deferred]: 451 }[address];
      if (!code) return done();
      return done(Object.assign(new Error(`<${address}> ${address.split("@")}`), { responseCode: code }));
    },
  });
  const common = commandEnv(services, { LOG_LEVEL: "trace", ...env });
  const gateway = spawnCli(["serve", "--no-worker", "--port", "0"], { env: common });
  const [, url = ""] = await gateway.waitForLine(/^Listening on ([^;]+);/, 60_000);
  const worker = spawnCli(["worker"], { env: { ...common, ...mailEnv(office.url) } });
  let answers = "";
  const send = async (method: string, path: string, body?: unknown, sentKey = key, headers = {}) => {
    const response = await fetch(url + path, {
      method,
      headers: { Authorization: `Bearer ${sentKey}`, "Content-Type": "application/json", ...headers },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    answers += `${response.status} ${JSON.stringify([...response.headers])} ${text}\n`;
    return { status: response.status, json: text ? JSON.parse(text) : undefined };
  };
  const post = (body: unknown, headers = {}) => send("POST", "/v1/forms", body, key, headers);
  let numberOfGuests = 0;
  const body = (guestEmail: string) =>
    fixedStay(owner.listingId, { guestEmail, numberOfGuests: ++numberOfGuests });
  const made: string[] = [];
  for (const guest of [ordinary, refused, deferred, erased]) {
    const request = body(guest);
    const { status, json } = await post(request, { "Idempotency-Key": `key-${numberOfGuests}` });
    expect(status).toBe(201);
    expect((await post(request)).status).toBe(201);
    expect(
      (await send("PUT", `/v1/forms/${json.id}`, { ...request, numberOfGuests: 50 + numberOfGuests })).status,
    ).toBe(200);
    made.push(json.id);
  }
  const valid = body(ordinary);
  const refusals = [
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
  expect(refusals.filter(({ status }) => status < 400)).toEqual([]);
  await send("GET", "/v1/forms");
  await send("GET", "/v1/listings");
  const states = async () => {
    const jobs = await asOperator(services).notifications.list();
    return Object.fromEntries(jobs.map(({ formId, state }) => [made.indexOf(formId), state]));
  };
  await vi.waitFor(async () => expect(await states()).toEqual({ 1: "failed", 2: "retrying" }), {
    timeout: 60_000,
    interval: 100,
  });
  expect(office.received.map(({ to }) => to[0]).toSorted()).toEqual([erased, ordinary]);
  expect(await asOperator(services).people.erase({ email: erased })).toMatchObject({ forms: 1 });
  await office.close();
  const ends = [await gateway.stop(), await worker.stop()];
  const halves = GUESTS.flatMap((guest) => guest.split("@"));
  const secrets = [...GUESTS, ...halves, key, readOnly.key, revoked.key, TEST_SECRET];
  return {
    databaseUrl: services.db.url,
    logs: ends.map(({ stdout, stderr }) => stdout + stderr).join("\n"),
    responses: answers,
    secrets: Object.fromEntries(secrets.map((secret, index) => [`${index}: ${secret.slice(0, 8)}…`, secret])),
  };
}

/** The names of the secrets that are in the text: as they are in any case, in hex, or in base64 however it is cut. */
export function findSecrets(text: string, secrets: Record<string, string>): string[] {
  const lower = text.toLowerCase();
  const isIn = (secret: string) =>
    [secret, encodeURIComponent(secret)].some((form) => lower.includes(form.toLowerCase())) ||
    [secret, secret.toLowerCase()].some(
      (form) =>
        lower.includes(Buffer.from(form).toString("hex")) ||
        inBase64(form).some((part) => text.includes(part)),
    );
  return Object.keys(secrets).filter((name) => isIn(secrets[name] ?? ""));
}

/** What base64 makes of it at each of the three places where it may begin, without the ends that others share. */
function inBase64(secret: string): string[] {
  return ["base64", "base64url"].flatMap((encoding) =>
    [0, 1, 2].map((before) => {
      const text = Buffer.from(" ".repeat(before) + secret).toString(encoding as "base64");
      return text.replace(/=+$/, "").slice(before === 0 ? 0 : before + 1, -2);
    }),
  );
}

/** Every row of every table as Postgres writes it: bytes in hex. */
export async function readAllRows(databaseUrl: string): Promise<Map<string, string>> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      `SELECT c.oid::regclass::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE c.relkind IN ('r', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')`,
    );
    const found = new Map<string, string>();
    for (const { name } of tables) {
      const { rows } = await client.query<{ row: string }>(`SELECT t::text AS row FROM ${name} t`);
      found.set(name, rows.map(({ row }) => row).join("\n"));
    }
    return found;
  } finally {
    await client.end();
  }
}

/** What pg_dump writes; undefined where there is none, or only one that is older than the server. */
export async function runPgDump(databaseUrl: string): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)("pg_dump", [databaseUrl], { maxBuffer: 100_000_000 });
    return stdout;
  } catch (error) {
    const { code, stderr = "" } = error as { code?: string | number; stderr?: string };
    if (code === "ENOENT" || stderr.includes("server version mismatch")) return undefined;
    throw error;
  }
}
