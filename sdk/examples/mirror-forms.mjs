#!/usr/bin/env node
/**
 * Copies all forms to a JSON Lines file. If interrupted, it resumes; a later run adds new forms. Forms that are already
 * in the file are not updated: delete it and its .state file for a fresh copy.
 *
 *   export GUEST_FORMS_API_KEY=grf_ro_… GUEST_FORMS_BASE_URL=http://127.0.0.1:3000
 *   node mirror-forms.mjs forms.jsonl [LISTING-ID]
 */
import { open, readFile, rename, writeFile } from "node:fs/promises";
import { GuestForms, InvalidCursorError } from "@guest-forms/sdk";

const [path, listingId] = process.argv.slice(2);
if (!path) {
  console.error("Usage: node mirror-forms.mjs FILE.jsonl [LISTING-ID]");
  process.exit(2);
}
const statePath = `${path}.state`;

/** @typedef {{ cursor?: string, bytes: number, forms: number }} State next page, and the size of the file before it */

const client = new GuestForms();
try {
  await mirror(await readState());
} catch (error) {
  if (!(error instanceof InvalidCursorError)) throw error;
  console.error("The stored cursor is no longer valid: starting over.");
  await mirror({ bytes: 0, forms: 0 });
}

/** @param {State} state */
async function mirror(state) {
  const file = await open(String(path), state.bytes ? "r+" : "w");
  try {
    // Remove what an interrupted run wrote after its last stored state.
    await file.truncate(state.bytes);
    let { bytes, forms } = state;
    for await (const page of client.forms.list({ limit: 100, listingId, cursor: state.cursor }).byPage()) {
      const lines = Buffer.from(page.items.map((form) => `${JSON.stringify(form)}\n`).join(""));
      await file.write(lines, 0, lines.length, bytes);
      await file.datasync();
      bytes += lines.length;
      forms += page.items.length;
      process.stderr.write(process.stderr.isTTY ? `\r${forms} forms` : "");
      // Keep the state before the last page: the next run reads that page again, with the forms added since.
      if (page.nextCursor !== null) await writeState({ cursor: page.nextCursor, bytes, forms });
    }
    if (process.stderr.isTTY) process.stderr.write("\n");
    console.log(`${forms} forms in ${path}`);
  } finally {
    await file.close();
  }
}

/** @returns {Promise<State>} */
async function readState() {
  try {
    return JSON.parse(await readFile(statePath, "utf8"));
  } catch {
    return { bytes: 0, forms: 0 };
  }
}

/** @param {State} state */
async function writeState(state) {
  await writeFile(`${statePath}.new`, JSON.stringify(state));
  await rename(`${statePath}.new`, statePath);
}
