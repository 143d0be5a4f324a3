import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { SavedDemo } from "./demo.js";

/** A file in `.data/`, where `dev` keeps its database, demo keys and token, and for the other commands its database URL and secret. */
const fileAt = (
  name: "" | ".gitignore" | "postgres" | "database-url" | "app-secret" | "internal-token" | "demo.json",
) => join(process.cwd(), ".data", name);

/** Creates `.data/` with a .gitignore that excludes all of it. */
export function makeDataFolder(): void {
  mkdirSync(fileAt(""), { recursive: true });
  writeFileSync(fileAt(".gitignore"), "*\n");
}

export const databaseFolder = () => fileAt("postgres");

export const removeDemo = () => rmSync(fileAt("demo.json"), { force: true });

/** The keys saved by an earlier start; none if the file is missing or malformed. */
export function readDemo(): Partial<SavedDemo> {
  try {
    return Object.fromEntries(
      Object.entries(JSON.parse(readFileSync(fileAt("demo.json"), "utf8"))).filter(
        ([, key]) => typeof key === "string",
      ),
    );
  } catch {
    return {};
  }
}

export const saveDemo = (demo: SavedDemo) => writePrivately(fileAt("demo.json"), `${JSON.stringify(demo, null, 2)}\n`);

export const saveDatabaseUrl = (url: string) => writePrivately(fileAt("database-url"), `${url}\n`);

export const removeDatabaseUrl = () => rmSync(fileAt("database-url"), { force: true });

export const readDatabaseUrl = (): string | undefined => readOwnFile(fileAt("database-url"));

export const readAppSecret = (): string | undefined => readOwnFile(fileAt("app-secret"));

/** Returns the saved application secret; makes one if there is none. */
export const ensureAppSecret = (): string => ensureSecret(fileAt("app-secret"));

/** The same for the token of the internal port. */
export const ensureInternalToken = (): string => ensureSecret(fileAt("internal-token"));

function ensureSecret(path: string): string {
  const saved = readOwnFile(path);
  if (saved) return saved;
  const secret = randomBytes(32).toString("base64url");
  writePrivately(path, `${secret}\n`);
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
