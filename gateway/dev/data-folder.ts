import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { SavedDemo } from "./demo.js";

/** Where `dev` keeps its database, demo keys and address, under the current folder. */
const dataFolder = () => join(process.cwd(), ".data");

/** Where a running `dev` leaves the address of its embedded database, for the other commands. */
export const addressFile = () => join(dataFolder(), "database-url");

const demoFile = () => join(dataFolder(), "demo.json");

/** Makes `.data/`, which git ignores wherever it is. */
export function makeDataFolder(): void {
  const folder = dataFolder();
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, ".gitignore"), "*\n");
}

export const databaseFolder = () => join(dataFolder(), "postgres");

export const removeDemo = () => rmSync(demoFile(), { force: true });

/** What an earlier start kept; nothing where it is missing or was spoilt. */
export function readDemo(): Partial<SavedDemo> {
  try {
    return Object.fromEntries(
      Object.entries(JSON.parse(readFileSync(demoFile(), "utf8"))).filter(
        ([, part]) => typeof part === "string",
      ),
    );
  } catch {
    return {};
  }
}

export const saveDemo = (demo: SavedDemo) => writePrivately(demoFile(), `${JSON.stringify(demo, null, 2)}\n`);

export const saveAddress = (url: string) => writePrivately(addressFile(), `${url}\n`);

export const removeAddress = () => rmSync(addressFile(), { force: true });

// Whole and unreadable to others from the first byte.
function writePrivately(path: string, text: string): void {
  const draft = `${path}.${process.pid}`;
  rmSync(draft, { force: true });
  writeFileSync(draft, text, { mode: 0o600, flag: "wx" });
  renameSync(draft, path);
}
