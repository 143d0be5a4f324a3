import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { SavedDemo } from "./demo.js";

/** Where `dev` keeps its database, demo keys, database URL and application secret. */
const dataFolder = () => join(process.cwd(), ".data");

/** Holds the URL of the embedded database while `dev` runs, for the other commands. */
const databaseUrlFile = () => join(dataFolder(), "database-url");

/** Holds the APP_SECRETS of `dev`, for the other commands too. */
const appSecretFile = () => join(dataFolder(), "app-secret");

const demoFile = () => join(dataFolder(), "demo.json");

/** Creates `.data/` with a .gitignore that excludes all of it. */
export function makeDataFolder(): void {
  const folder = dataFolder();
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, ".gitignore"), "*\n");
}

export const databaseFolder = () => join(dataFolder(), "postgres");

export const removeDemo = () => rmSync(demoFile(), { force: true });

/** The keys saved by an earlier start; none if the file is missing or malformed. */
export function readDemo(): Partial<SavedDemo> {
  try {
    return JSON.parse(readFileSync(demoFile(), "utf8")) ?? {};
  } catch {
    return {};
  }
}

export const saveDemo = (demo: SavedDemo) => writePrivately(demoFile(), `${JSON.stringify(demo, null, 2)}\n`);

export const saveDatabaseUrl = (url: string) => writePrivately(databaseUrlFile(), `${url}\n`);

export const removeDatabaseUrl = () => rmSync(databaseUrlFile(), { force: true });

export const readDatabaseUrl = (): string | undefined => readOwnFile(databaseUrlFile());

export const readAppSecret = (): string | undefined => readOwnFile(appSecretFile());

/** Returns the saved application secret; makes one if there is none. */
export function ensureAppSecret(): string {
  const saved = readAppSecret();
  if (saved) return saved;
  const secret = randomBytes(32).toString("base64url");
  writePrivately(appSecretFile(), `${secret}\n`);
  return secret;
}

/** Ignores another user's file: commands must not use that user's database. */
function readOwnFile(path: string): string | undefined {
  try {
    if (process.getuid && statSync(path).uid !== process.getuid()) return undefined;
    return readFileSync(path, "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}

// Atomic, and never readable by other users.
function writePrivately(path: string, text: string): void {
  const draft = `${path}.${process.pid}`;
  rmSync(draft, { force: true });
  writeFileSync(draft, text, { mode: 0o600, flag: "wx" });
  renameSync(draft, path);
}
