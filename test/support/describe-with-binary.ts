import { accessSync, constants, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { describe, it } from "vitest";

/**
 * `describe` for tests that need a command from a Debian package. Write `COMMAND:PACKAGE` if their names differ. If the
 * command is missing, the tests are skipped and say so, or fail in CI.
 */
export function describeWithBinary(commandAndPackage: string, name: string, tests: (path: string) => void): void {
  const [command = "", debianPackage = command] = commandAndPackage.split(":");
  const path = findCommand(command);
  const requirement = `needs ${command}: apt-get install ${debianPackage}`;
  if (path) describe(name, () => tests(path));
  else if (process.env.CI) {
    it(name, () => {
      throw new Error(requirement);
    });
  } else {
    // On a developer's machine the program may be missing: the title says what to install.
    it.skip(`${name} (${requirement})`, () => {});
  }
}

/** Debian's versions of PostgreSQL, newest first. Only some of their commands are in PATH. */
function findPostgresFolders(): string[] {
  const parent = "/usr/lib/postgresql";
  try {
    const versions = readdirSync(parent).sort((one, other) => Number(other) - Number(one));
    return versions.map((version) => join(parent, version, "bin"));
  } catch {
    return [];
  }
}

// Debian installs servers in sbin folders, which are not in a user's PATH.
const FOLDERS = [
  ...findPostgresFolders(),
  ...(process.env.PATH ?? "").split(delimiter),
  "/usr/sbin",
  "/usr/local/sbin",
];

/** Returns the path of a command, undefined if it is not installed. */
export function findCommand(name: string): string | undefined {
  return FOLDERS.map((folder) => join(folder, name)).find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
