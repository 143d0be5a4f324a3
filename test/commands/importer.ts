import { mkdtempSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import type { Services } from "../../server/context.js";
import { afterFile } from "../support/after-file.js";
import { createTestDatabase } from "../support/database.js";
import { openTestServices, TEST_SECRET } from "../support/factories.js";
import { runInProcess } from "../support/run-in-process.js";

/** A database to import into, and a folder for files, which is removed after the test file. */
export interface Importer {
  env: Record<string, string>;
  services: Services;
  folder: string;
  /** Writes a file. Returns its path. */
  write(name: string, content: string | Uint8Array): string;
  /** Runs `guest-forms import --json`, which must succeed. Returns what it prints. */
  importJson(path: string, ...args: string[]): Promise<Record<string, unknown>>;
}

export async function openImporter(): Promise<Importer> {
  const folder = mkdtempSync(join(tmpdir(), "guest-forms-import-"));
  afterFile(() => rm(folder, { recursive: true }));
  const { url } = await createTestDatabase();
  const env = { DATABASE_URL: url, APP_SECRETS: TEST_SECRET };
  return {
    env,
    services: await openTestServices(env),
    folder,
    write(name, content) {
      const path = join(folder, name);
      writeFileSync(path, content);
      return path;
    },
    async importJson(path, ...args) {
      const { stdout, code, message } = await runInProcess(["import", path, "--json", ...args], env);
      expect({ code, message }).toEqual({ code: 0, message: "" });
      return JSON.parse(stdout);
    },
  };
}

export const toNdjson = (...rows: unknown[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");

export const none = { created: 0, updated: 0, unchanged: 0 };
export const created = (count: number) => ({ ...none, created: count });
export const unchanged = (count: number) => ({ ...none, unchanged: count });

let serial = 0;

/** Rows with names that no other test uses. */
export function makeRows() {
  const id = `t${++serial}`;
  const place = {
    address: "Ufer 20",
    city: "Berlin",
    country: "Germany",
    zipCode: "10999",
    timezone: "Europe/Berlin",
  };
  return {
    id,
    ana: { type: "user", externalId: `${id}-ana`, email: `${id}.ana@example.com`, name: "Ana" },
    ben: { type: "user", externalId: `${id}-ben`, email: `${id}.ben@example.com` },
    loft: { type: "listing", externalId: `${id}-loft`, title: "Loft", ...place },
    owns: { type: "membership", listing: `${id}-loft`, user: `${id}-ana`, role: "OWNER" },
    reads: { type: "membership", listing: `${id}-loft`, user: `${id}.Ben@example.com`, role: "READER" },
  };
}
