import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { openTestServices } from "../support/factories.js";
import { commandsWith, runInProcess } from "../support/run-in-process.js";
import { makeTempFolder } from "../support/run-tool.js";

/** Opens a database to import into, and a folder for files. */
export async function openImporter() {
  const services = await openTestServices();
  const folder = await makeTempFolder("import");
  const env = { DATABASE_URL: services.db.url };
  const { json } = commandsWith(env);
  /** Writes a file of bytes or text, or of one line per row. Returns its path. */
  function write(name: string, content: string | Uint8Array | object[]): string {
    const path = join(folder, name);
    const isText = typeof content === "string" || content instanceof Uint8Array;
    writeFileSync(path, isText ? content : toNdjson(...content));
    return path;
  }
  /** Runs `guest-forms import --json`, which must succeed. Returns what it prints, without ids. */
  async function importJson(path: string, ...args: string[]) {
    const { ids: _, ...summary } = await json("import", path, ...args);
    return summary;
  }
  /** Imports these rows. */
  const importRows = (...rows: object[]) => importJson(write("rows.ndjson", rows));
  const countRows = async () => {
    const tables = ["users", "listings", "memberships"].map((name) => `(SELECT count(*) FROM ${name}) ${name}`);
    return (await services.db.pool.query(`SELECT ${tables}`)).rows;
  };

  /** Imports the file, which must fail and write nothing. Returns the errors. */
  async function errorsOf(path: string): Promise<string[]> {
    const before = await countRows();
    const { code, message, stdout } = await runInProcess(["import", path], env);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(await countRows()).toEqual(before);
    const lines = message.split("\n");
    expect(lines.at(-1)).toBe(`Nothing was imported. Errors in ${path}: ${lines.length - 1}.`);
    return lines.slice(0, -1);
  }
  return { services, env, folder, write, importJson, importRows, errorsOf };
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
