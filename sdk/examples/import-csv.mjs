#!/usr/bin/env node
/**
 * Imports stays from a CSV file and shows progress. You can stop it (Ctrl-C), add rows and run it again: each row
 * creates one form only.
 *
 *   export GUEST_FORMS_API_KEY=grf_rw_… GUEST_FORMS_BASE_URL=http://127.0.0.1:3000
 *   node import-csv.mjs stays.csv [LISTING-ID]
 *
 * The first line contains the column names: listingId,checkInDate,checkOutDate,numberOfGuests,guestEmail,externalId.
 * LISTING-ID is the default of listingId. externalId is the booking's id: equal stays of two bookings are two forms.
 */
import { readFile } from "node:fs/promises";
import { ForbiddenError, GuestForms, GuestFormsError, UnauthenticatedError, ValidationError } from "@guest-forms/sdk";

const CONCURRENCY = 4;

const [path, listingId = ""] = process.argv.slice(2);
if (!path) {
  console.error("Usage: node import-csv.mjs FILE.csv [LISTING-ID]");
  process.exit(2);
}

const stop = new AbortController();
process.once("SIGINT", () => stop.abort("Stopped. Run it again to continue."));

// Wait for the rate limit instead of failing.
const client = new GuestForms({ maxRetries: 6, timeout: 180_000 });
const rows = parseCsv(await readFile(path, "utf8"));
for (const row of rows) row.listingId ||= listingId;
const count = { created: 0, existing: 0, failed: 0 };
/** @type {string[]} */
const failures = [];

const queue = rows.entries();
await Promise.all(Array.from({ length: CONCURRENCY }, work));
if (process.stderr.isTTY) process.stderr.write("\n");
for (const failure of failures) console.error(failure);
console.log(
  `${count.created} created, ${count.existing} already existed, ${count.failed} failed, ${rows.length} in total`,
);
if (stop.signal.aborted) console.error(stop.signal.reason);
process.exitCode = count.failed || stop.signal.aborted ? 1 : 0;

/** Takes rows from the shared queue until it is empty. */
async function work() {
  for (const [index, row] of queue) {
    if (stop.signal.aborted) return;
    try {
      const { replayed } = await client.forms
        .create(
          {
            listingId: row.listingId ?? "",
            checkInDate: row.checkInDate ?? "",
            checkOutDate: row.checkOutDate ?? "",
            numberOfGuests: Number(row.numberOfGuests),
            guestEmail: row.guestEmail || null,
            externalId: row.externalId || null,
          },
          // Without an idempotencyKey, a later run replays equal rows, whatever happened to their forms.
          { signal: stop.signal },
        )
        .withResponse();
      count[replayed ? "existing" : "created"] += 1;
    } catch (error) {
      if (stop.signal.aborted) return;
      count.failed += 1;
      failures.push(`row ${index + 1}: ${describeError(error)}`);
      // All other rows would fail too.
      if (error instanceof UnauthenticatedError || error instanceof ForbiddenError)
        stop.abort("Stopped. Use a valid read-write key.");
      if (!(error instanceof GuestFormsError)) throw error;
    }
    if (process.stderr.isTTY) {
      const done = count.created + count.existing + count.failed;
      process.stderr.write(`\r${done}/${rows.length} (${count.failed} failed)`);
    }
  }
}

/** @param {unknown} error */
function describeError(error) {
  if (error instanceof ValidationError) return error.errors.map(({ field, issue }) => `${field} ${issue}`).join(", ");
  return error instanceof Error ? error.message : String(error);
}

/**
 * Parses RFC 4180: quoted cells may contain commas, doubled quotes and line breaks.
 *
 * @param {string} text
 * @returns {Record<string, string>[]}
 */
function parseCsv(text) {
  /** @type {string[][]} */
  const lines = [];
  /** @type {string[]} */
  let cells = [];
  for (const [, quoted, plain, end] of text
    .replace(/^\uFEFF/, "")
    .matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    cells.push(quoted?.replaceAll('""', '"') ?? plain?.trim() ?? "");
    if (end === ",") continue;
    if (cells.some(Boolean)) lines.push(cells);
    cells = [];
  }
  const [names = [], ...body] = lines;
  return body.map((line) => Object.fromEntries(names.map((name, i) => [name, line[i] ?? ""])));
}
