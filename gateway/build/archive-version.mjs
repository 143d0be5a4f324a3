import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * The version of an archive of the files in `folder`. That of package.json is only for the release that CHANGELOG.md begins with.
 * With unreleased changes, it is a prerelease of the next patch, which sorts after this release and before any later one (SemVer).
 * A hash of the files is added, so that no two builds have the same version.
 */
export function archiveVersion(version, folder) {
  const [, heading = ""] = /^## (.+)$/m.exec(readFileSync(join(folder, "CHANGELOG.md"), "utf8")) ?? [];
  if (heading.startsWith(`${version} - `)) return version;
  // A hyphen before the hash: npm rejects an identifier of digits that begins with 0.
  if (heading === "Unreleased") return `${nextPatch(version)}-next-${hashOf(folder)}`;
  throw new Error(`CHANGELOG.md begins with "${heading}": change it to "Unreleased" or "${version} - DATE".`);
}

const nextPatch = (version) => version.replace(/\d+$/, (patch) => `${Number(patch) + 1}`);

function hashOf(folder) {
  const hash = createHash("sha256");
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  for (const path of files.map(({ parentPath, name }) => join(parentPath, name)).sort())
    hash
      .update(`${path.slice(folder.length)}\0`)
      .update(readFileSync(path))
      .update("\0");
  return hash.digest("hex").slice(0, 8);
}
