import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { describe, it } from "vitest";

/**
 * `describe` for tests that need a binary from the Debian package of the same name. If it is missing, the tests are
 * skipped with a note, or fail in CI.
 */
export function describeWithBinary(binary: string, name: string, tests: (path: string) => void): void {
  const path = findBinary(binary);
  const requirement = `needs ${binary}: apt-get install ${binary}`;
  if (path) describe(name, () => tests(path));
  else if (process.env.CI) {
    it(name, () => {
      throw new Error(requirement);
    });
  } else it.skip(`${name} (${requirement})`, () => {});
}

// Debian installs servers in sbin folders, which are not in a user's PATH.
const FOLDERS = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/usr/local/sbin"];

function findBinary(binary: string): string | undefined {
  return FOLDERS.map((folder) => join(folder, binary)).find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
