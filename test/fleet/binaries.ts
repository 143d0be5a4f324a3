import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { describe, it } from "vitest";

/**
 * `describe` for tests of a server that is a Debian package of the same name. Where it is missing they are skipped,
 * saying so, and fail in CI.
 */
export function describeWith(binary: string, name: string, tests: (path: string) => void): void {
  const path = find(binary);
  const need = `needs ${binary}: apt-get install ${binary}`;
  if (path) describe(name, () => tests(path));
  else if (process.env.CI) {
    it(name, () => {
      throw new Error(need);
    });
  } else it.skip(`${name} (${need})`, () => {});
}

// Debian keeps servers where a user's PATH does not look.
const FOLDERS = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/usr/local/sbin"];

function find(binary: string): string | undefined {
  return FOLDERS.map((folder) => join(folder, binary)).find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
