// `npm run release`: packs the service as a tarball without development dependencies. Run `npm ci` in the unpacked folder
// to install the locked versions. The lock file is renamed because npm packs only npm-shrinkwrap.json.
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const draft = mkdtempSync(join(tmpdir(), "guest-forms-release-"));
// `npm run migration` needs development dependencies.
const filter = (path) => path !== join(root, "dist/gateway/dev/migration");
const npm = (...words) =>
  execFileSync("npm", words, { cwd: draft, stdio: "inherit", shell: process.platform === "win32" });

try {
  const { devDependencies, overrides, scripts, ...manifest } = JSON.parse(
    readFileSync(join(root, "package.json"), "utf8"),
  );
  for (const path of [...manifest.files, "README.md", "LICENSE", "package-lock.json"]) {
    if (path !== "npm-shrinkwrap.json") cpSync(join(root, path), join(draft, path), { recursive: true, filter });
  }
  writeFileSync(join(draft, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  // Removes development dependencies from the lock file and keeps all other versions.
  npm("install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund", "--silent");
  renameSync(join(draft, "package-lock.json"), join(draft, "npm-shrinkwrap.json"));
  npm("pack", "--silent", "--pack-destination", resolve(process.argv[2] ?? root));
} finally {
  rmSync(draft, { recursive: true, force: true });
}
