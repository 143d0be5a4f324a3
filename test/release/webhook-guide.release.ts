import { readFileSync } from "node:fs";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import pg from "pg";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { signWebhook, unwrapWebhook, type WebhookEvent } from "../../sdk/src/webhooks.js";
import { WEBHOOK_GUIDE, webhookGuideSamples } from "../contract/samples.js";
import { afterFile } from "../support/after-file.js";
import { openTestCore } from "../support/core.js";
import { createTestDatabase } from "../support/database.js";
import { makeKey } from "../support/factories.js";
import { startTestGateway } from "../support/gateway.js";
import { startTestWorker } from "../support/mail-server.js";
import { acceptsConnections, freePort, listenLocally } from "../support/network.js";
import { spawnNode } from "../support/processes.js";
import { runSql } from "../support/run-sql.js";
import { makeTempFolder } from "../support/run-tool.js";
import { bundleWithSdk, compileWithSdk } from "../support/sdk-programs.js";

// Runs the receivers of the guide as they are printed there, against a real service and a database of their own.

const { services, owner, operator, sql } = await openTestCore({ WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" });
const { webhooks } = operator;

const samples = Object.fromEntries(webhookGuideSamples().map(({ name, source }) => [name, source]));
const sample = (name: string) => samples[name] ?? expect.fail(`the guide has no sample "${name}"`);
const guide = readFileSync(join(packageRoot(), WEBHOOK_GUIDE), "utf8");
const block = (language: string) =>
  new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "ms").exec(guide)?.[1] ?? expect.fail(`no block of ${language}`);

const folder = await makeTempFolder("webhook-guide");
await symlink(join(packageRoot(), "node_modules"), join(folder, "node_modules"));
await mkdir(join(folder, "app/webhooks"), { recursive: true });

/** What calls a route handler as Next.js does. */
const NEXT = `import { serve } from "@hono/node-server";
  import { POST } from "./app/webhooks/route.ts";
  serve({ fetch: POST, port: Number(process.env.PORT) });`;

const FILES: Record<string, string> = {
  "handle-event.ts": sample("Handle each event once ts 1"),
  "express.ts": sample("Express ts 1"),
  "app/webhooks/route.ts": sample("Next.js ts 1"),
  "next.ts": NEXT,
  "hono.ts": sample("Hono ts 1"),
  "test.ts": sample("Test your receiver ts 1"),
  "catch-up.ts": sample("Catch up after an outage ts 1"),
};
for (const [file, source] of Object.entries(FILES)) await writeFile(join(folder, file), source);

const ALIASES = { "@/handle-event": join(folder, "handle-event.ts") };
const bundle = (file: string) => bundleWithSdk(join(folder, file), ALIASES);

const database = await createTestDatabase({ empty: true });
await runSql(database.url, block("sql"));
const receiver = new pg.Client({ connectionString: database.url });
await receiver.connect();
afterFile(() => receiver.end());

/** The rows that the receiver has stored. */
const query = async (statement: string) => (await receiver.query(statement)).rows;
const storedForms = async () => (await query("SELECT form FROM guest_forms")).map(({ form }) => form);

/** Starts a receiver of the guide, with an endpoint of the owner. */
async function startReceiver(file: string) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/webhooks`;
  const { id, secret } = await webhooks.create({ userId: owner.userId, url });
  const env = { PORT: String(port), WEBHOOK_SECRET: secret, RECEIVER_DATABASE_URL: database.url };
  const process = spawnNode([await bundle(file)], { env, cwd: folder });
  onTestFinished(() => void process.stopOrKill());
  await expect.poll(() => acceptsConnections(port)).toBe(true);
  return {
    id,
    url,
    secret,
    /** Sends an event, signed with this secret. */
    async post(
      event: WebhookEvent | string,
      { by = secret, ...options }: { by?: string; id?: string; timestamp?: Date } = {},
    ) {
      const response = await fetch(url, { method: "POST", ...(await signWebhook(event, by, options)) });
      return { status: response.status, text: await response.text() };
    },
    states: async () => (await webhooks.deliveries({ endpointId: id })).items.map(({ state }) => state),
    process,
  };
}

const RECEIVERS = [
  ["Express", "express.ts"],
  ["Next.js", "next.ts"],
  ["Hono", "hono.ts"],
] as const;

beforeEach(async () => {
  await sql("TRUNCATE webhook_endpoints, webhook_deliveries, emails, forms, audit_entries CASCADE");
  await query("TRUNCATE received_webhooks, guest_forms, form_jobs");
});

describe.each(RECEIVERS)("the receiver of the guide in %s", (_, file) => {
  test("stores the forms of what the service sends, once per webhook-id, and answers 2xx", async () => {
    const { id, states } = await startReceiver(file);
    const { id: formId } = await owner.addForm();
    await startTestWorker(services);
    await expect.poll(states).toEqual(["sent"]);
    await operator.forms.setStatus({ id: formId, status: "COMPLETED" });
    await webhooks.test({ id });
    await expect.poll(states).toEqual(["sent", "sent", "sent"]);
    expect(await storedForms()).toEqual([await owner.forms.get({ id: formId })]);
    const jobs = [{ form_id: formId, job: "tell the host" }];
    expect(await query("SELECT form_id, job FROM form_jobs")).toEqual(jobs);

    expect(await webhooks.redeliver({ endpointId: id, since: new Date(0).toISOString() })).toEqual({ redelivered: 3 });
    const attempts = async () => (await webhooks.deliveries({ endpointId: id })).items.map(({ attempts: n }) => n);
    await expect.poll(states).toEqual(["sent", "sent", "sent"]);
    expect(await attempts()).toEqual([1, 1, 1]);
    expect(await query("SELECT form_id, job FROM form_jobs")).toEqual(jobs);
    expect(await query("SELECT id FROM received_webhooks")).toHaveLength(3);
  });

  test("answers 400 to what the service has not signed, and stores nothing of it", async () => {
    const { post, url } = await startReceiver(file);
    const now = new Date().toISOString();
    const event = { type: "form.created", timestamp: now, sentAt: now, data: { form: await owner.addForm() } };
    const forged = await post(JSON.stringify(event), { by: `whsec_${"A".repeat(43)}=` });
    expect(forged).toEqual({
      status: 400,
      text: expect.stringContaining("No signature of the webhook request matches"),
    });
    const recorded = await post(JSON.stringify(event), { timestamp: new Date(Date.now() - 301_000) });
    expect(recorded).toEqual({ status: 400, text: expect.stringMatching(/was sent 30\d s ago/) });
    expect(
      (await fetch(url, { method: "POST", body: "{}", headers: { "content-type": "application/json" } })).status,
    ).toBe(400);
    expect(await query("SELECT FROM received_webhooks")).toEqual([]);
    expect(await storedForms()).toEqual([]);
  });

  test("answers 2xx to a type that it does not know", async () => {
    const { post } = await startReceiver(file);
    expect(await post('{"type":"form.sung","data":{}}')).toEqual({ status: 204, text: "" });
    expect(await storedForms()).toEqual([]);
  });

  test("answers 500 if it could not store the event, which the next attempt stores", async () => {
    const { states, process } = await startReceiver(file);
    await query("ALTER TABLE guest_forms RENAME TO lost");
    const form = await owner.addForm();
    await startTestWorker(services);
    await expect.poll(states).toEqual(["retrying"]);
    const [delivery] = (await webhooks.deliveries({ endpointId: (await webhooks.list({})).items[0]?.id ?? "" })).items;
    expect(delivery?.responseStatus).toBe(500);
    await query("ALTER TABLE lost RENAME TO guest_forms");
    await expect.poll(states).toEqual(["sent"]);
    expect(await storedForms()).toEqual([form]);
    expect(process.hasExited).toBe(false);
  });
});

describe("handle-event.ts of the guide", () => {
  /** `sentAt` is in milliseconds from now. */
  const eventWith = (form: WebhookEvent["data"]["form"], seconds: number): WebhookEvent =>
    ({
      type: "form.created",
      timestamp: new Date().toISOString(),
      sentAt: new Date(Date.now() + seconds * 1000).toISOString(),
      data: { form },
    }) as WebhookEvent;

  test("handles an event once that arrives many times at the same time", async () => {
    const { post } = await startReceiver("hono.ts");
    const form = await owner.addForm();
    const data = { form, from: "SENT", to: "COMPLETED" };
    const event: WebhookEvent = {
      type: "form.status_changed",
      timestamp: form.createdAt,
      sentAt: form.createdAt,
      data,
    };
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(event, { id: "same" })));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([204]));
    expect(await query("SELECT FROM form_jobs")).toHaveLength(1);
    await query("UPDATE received_webhooks SET received_at = '2020-01-01', last_received_at = '2020-01-01'");
    await post(event, { id: "same" });
    const [times] = await query(
      "SELECT received_at::date::text AS first, now() - last_received_at < '1 minute' AS is_new FROM received_webhooks",
    );
    expect(times, "the id is kept for 40 days from now").toEqual({ first: "2020-01-01", is_new: true });
    await query("DELETE FROM received_webhooks WHERE id = 'same'");
    await post(event, { id: "same" });
    expect(await query("SELECT FROM form_jobs"), "forgotten, so handled again").toHaveLength(2);
  });

  test("does not replace a form by one that was sent before it", async () => {
    const { post } = await startReceiver("hono.ts");
    const form = await owner.addForm();
    await post(eventWith({ ...form, status: "ACCEPTED" }, 0));
    await post(eventWith({ ...form, status: "COMPLETED" }, -60));
    expect(await storedForms()).toEqual([{ ...form, status: "ACCEPTED" }]);
    await post(eventWith({ ...form, status: "VALIDATED" }, 60));
    expect(await storedForms()).toEqual([{ ...form, status: "VALIDATED" }]);
  });
});

test("a receiver that parses the body before the webhook route says so", async () => {
  const source = sample("Express ts 1");
  const parser = /^app\.use\(express\.json\(\)\).*\n/m;
  const [line = ""] = parser.exec(source) ?? [];
  const trapped = source.replace(parser, "").replace("const app = express();\n", (found) => found + line);
  await writeFile(join(folder, "trap.ts"), trapped);
  const { post, process } = await startReceiver("trap.ts");
  const now = new Date().toISOString();
  expect((await post({ type: "webhook.test", timestamp: now, sentAt: now, data: {} })).status).toBe(500);
  const [, message = ""] = /^ {2}`(The body of a webhook request must be raw)`/m.exec(guide) ?? [];
  await expect.poll(() => process.stderr).toContain(message);
  expect(message).not.toBe("");
});

test("the test program of the guide prints what it says", async () => {
  const { secret, url } = await startReceiver("express.ts");
  await writeFile(join(folder, "test.ts"), sample("Test your receiver ts 1").replace(/"http:.*"/, JSON.stringify(url)));
  const ran = await spawnNode([await bundle("test.ts")], { env: { WEBHOOK_SECRET: secret } }).done;
  expect(ran).toMatchObject({ code: 0, stdout: "204 400\n", stderr: "" });
});

test("catch-up.ts of the guide stores the forms as they are, removes those that left the scope, and keeps newer ones", async () => {
  const gateway = await startTestGateway({ DATABASE_URL: services.db.url });
  const { key } = await makeKey(services, owner.userId);
  const [missed, stale, newer] = [await owner.addForm(), await owner.addForm(), await owner.addForm()];
  const gone = { ...stale, id: "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa" };
  const store = (form: object, sentAt: string) =>
    receiver.query(`INSERT INTO guest_forms VALUES ($1, $2, ${sentAt})`, [(form as { id: string }).id, form]);
  await store({ ...stale, numberOfGuests: 99 }, "now() - interval '1 hour'");
  await store({ ...newer, numberOfGuests: 99 }, "now()");
  await store(gone, "now() - interval '1 hour'");
  const env = {
    RECEIVER_DATABASE_URL: database.url,
    GUEST_FORMS_BASE_URL: gateway.url,
    GUEST_FORMS_API_KEY: key,
  };
  expect(await spawnNode([await bundle("catch-up.ts")], { env }).done).toMatchObject({ code: 0, stderr: "" });
  const stored = new Map((await storedForms()).map((form) => [form.id, form]));
  expect(stored).toEqual(
    new Map([
      [missed.id, missed],
      [stale.id, stale],
      [newer.id, { ...newer, numberOfGuests: 99 }],
    ]),
  );
});

test("the request that the guide shows has the headers and the form of what is sent, and its signature is right", async () => {
  const [head = "", body = ""] = block("http").split("\n\n");
  const [request, ...lines] = head.split("\n");
  const shown = Object.fromEntries(lines.map((line) => line.split(": ") as [string, string]));
  const compact = JSON.stringify(JSON.parse(body));
  const [, secret = ""] = /`(whsec_[\w+/=]+)`/.exec(guide) ?? [];
  expect(await unwrapWebhook(compact, shown, secret, { toleranceSeconds: Number.POSITIVE_INFINITY })).toEqual(
    JSON.parse(body),
  );
  expect(shown["Content-Length"]).toBe(String(Buffer.byteLength(compact)));

  const received: { rawHeaders: string[]; line: string; body: string }[] = [];
  const server = createServer(async (incoming, response) => {
    const line = `${incoming.method} ${incoming.url} HTTP/${incoming.httpVersion}`;
    received.push({ rawHeaders: incoming.rawHeaders, line, body: await text(incoming) });
    response.end();
  });
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${await listenLocally(server)}/webhooks`;
  await webhooks.create({ userId: owner.userId, url, events: ["form.status_changed"] });
  const form = await owner.addForm();
  await operator.forms.setStatus({ id: form.id, status: "COMPLETED" });
  await startTestWorker(services);
  await expect.poll(() => received.length).toBe(1);
  const [{ rawHeaders, ...sent } = expect.fail("nothing was sent")] = received;
  const names = rawHeaders.filter((_, index) => index % 2 === 0).filter((name) => name !== "Connection");
  expect(names.sort()).toEqual(Object.keys(shown).sort());
  expect(sent.line).toBe(request);
  const keys = (json: string) => json.replaceAll(/:(?:"[^"]*"|null|\d+)/g, "");
  expect(keys(sent.body)).toBe(keys(compact));
});

test("the samples of the guide compile in strict mode, and each of them is run", { timeout: 180_000 }, async () => {
  const used = ["Verify without the SDK python 1"];
  const written = Object.values(FILES);
  const untested = Object.entries(samples).filter(
    ([name, source]) => !used.includes(name) && !written.includes(source),
  );
  expect(untested).toEqual([]);
  expect(await compileWithSdk(folder, Object.keys(FILES), ALIASES)).toBe("");
});
