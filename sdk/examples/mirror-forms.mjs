#!/usr/bin/env node
/**
 * Mirrors all forms in a folder, one JSON file per form: lists them once, then follows the changes by webhooks. If it was
 * stopped or killed, start it again: it misses nothing, because it lists all forms at every start.
 *
 *   export GUEST_FORMS_API_KEY=grf_ro_… GUEST_FORMS_BASE_URL=http://127.0.0.1:3000
 *   export WEBHOOK_SECRET=whsec_… PORT=8080
 *   node mirror-forms.mjs FOLDER [LISTING-ID]
 *
 * WEBHOOK_SECRET is that of an endpoint with the URL of this program, which belongs to the user of the key:
 *
 *   guest-forms webhooks create --url http://127.0.0.1:8080 --user USER
 */
import { once } from "node:events";
import { mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { GuestForms, ResourceNotFoundError } from "@guest-forms/sdk";
import { unwrapWebhook, WebhookVerificationError } from "@guest-forms/sdk/webhooks";

const [folder = "", listingId] = process.argv.slice(2);
const { WEBHOOK_SECRET, PORT = "8080" } = process.env;
if (!folder || !WEBHOOK_SECRET) {
  console.error("Usage: WEBHOOK_SECRET=whsec_… node mirror-forms.mjs FOLDER [LISTING-ID]");
  process.exit(2);
}

/** If a listing enters or leaves the scope of the key, there is no event for its forms. */
const LIST_EVERY_MS = 24 * 3_600_000;
const MAX_BODY_BYTES = 65_536;

// Waits out an interruption of ten minutes. Any other error ends the program.
const client = new GuestForms({ timeout: 600_000, maxRetries: 1_000 });

/**
 * The ids of forms that have changed since they were last fetched. An event only says that a form has changed: the order of
 * events and their repetition do not matter, because the form is fetched afterwards.
 *
 * @type {Set<string>}
 */
const changed = new Set();

const server = createServer(async (request, response) => {
  const [status, message] = await receive(request).catch(describeRejection);
  response.writeHead(status, { "content-type": "text/plain" }).end(message);
});
server.listen(Number(PORT));
await once(server, "listening");
console.log(`receiving webhooks on port ${PORT}`);

// Changes that arrive while the list is read wait for its end, so that no older form of the list replaces them.
await mkdir(folder, { recursive: true });
for (;;) {
  const listAgainAt = Date.now() + LIST_EVERY_MS;
  console.log(`${await mirrorAll()} forms in ${folder}`);
  while (Date.now() < listAgainAt) {
    for (const id of changed) {
      changed.delete(id);
      await mirror(id);
    }
    await sleep(100);
  }
}

/**
 * Answers before the form is fetched. If this program is killed in between, the list of its next start has the change.
 *
 * @param {import("node:http").IncomingMessage} request
 * @returns {Promise<[status: number, message: string]>}
 */
async function receive(request) {
  if (!(Number(request.headers["content-length"]) <= MAX_BODY_BYTES)) return [413, "too large"];
  const { data } = await unwrapWebhook(await text(request), request.headers, String(WEBHOOK_SECRET));
  // Not for webhook.test, nor for types that are newer than this program.
  if ("form" in data) changed.add(data.form.id);
  return [200, "received"];
}

/**
 * @param {unknown} error
 * @returns {[status: number, message: string]}
 */
function describeRejection(error) {
  if (error instanceof WebhookVerificationError) return [400, error.message];
  console.error(error);
  return [500, "failed"];
}

/** Writes all forms, and removes those that are no longer in the list. Returns their number. */
async function mirrorAll() {
  const gone = new Set(await readdir(folder));
  let count = 0;
  for await (const form of client.forms.list({ limit: 100, listingId })) {
    gone.delete(await store(form));
    count += 1;
  }
  for (const file of gone) if (file.endsWith(".json")) await rm(join(folder, file));
  return count;
}

/**
 * Fetches a form and writes it, or removes one that left the scope of the key, or the listing.
 *
 * @param {string} id
 */
async function mirror(id) {
  const form = await client.forms.retrieve(id).catch((error) => {
    if (error instanceof ResourceNotFoundError) return undefined;
    throw error;
  });
  if (form && (!listingId || form.listingId === listingId)) await store(form);
  else await rm(join(folder, `${id}.json`), { force: true });
  console.log(id, form?.status ?? "removed");
}

/**
 * Replaces the file of a form, so that a reader never finds half of it. Returns its name.
 *
 * @param {import("@guest-forms/sdk").FormV1} form
 */
async function store(form) {
  const file = `${form.id}.json`;
  await writeFile(join(folder, ".new"), `${JSON.stringify(form)}\n`);
  await rename(join(folder, ".new"), join(folder, file));
  return file;
}
