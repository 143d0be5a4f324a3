// `npm run release`: packs what `npm run build` has bundled, with a list of the packages in it (SBOM).
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { archiveVersion } from "./archive-version.mjs";
import { bundledPackages } from "./bundled-packages.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const readJson = (path) => JSON.parse(readFileSync(join(root, path), "utf8"));
const npm = (cwd, ...words) =>
  execFileSync("npm", words, { cwd, encoding: "utf8", maxBuffer: 64 << 20, shell: process.platform === "win32" });

/** The bundled packages in CycloneDX, with the hashes of the lock file. */
function billOfMaterials(version) {
  const { components, dependencies, metadata, ...bill } = JSON.parse(
    npm(root, "sbom", "--sbom-format=cyclonedx", "--package-lock-only"),
  );
  const bundled = bundledPackages(readJson("dist/tools/metafile.json"), root);
  const refs = new Set(bundled.map(({ name, version }) => `${name}@${version}`));
  const missing = [...refs].filter((ref) => !components.some((component) => component["bom-ref"] === ref));
  if (missing.length > 0) throw new Error(`package-lock.json does not have ${missing.join(", ")}.`);
  const { name } = readJson("package.json");
  return {
    ...bill,
    metadata: { ...metadata, component: { ...metadata.component, name, version, purl: `pkg:npm/${name}@${version}` } },
    // The bundle contains them, whatever the project needs them for.
    components: components
      .filter((component) => refs.has(component["bom-ref"]))
      .map((component) => ({ ...component, scope: "required" })),
    dependencies: dependencies
      .filter(({ ref }) => refs.has(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((other) => refs.has(other)) })),
  };
}

const draft = mkdtempSync(join(tmpdir(), "guest-forms-release-"));
// Only for development.
const filter = (path) => path !== join(root, "dist/tools");

try {
  const { dependencies, devDependencies, overrides, scripts, allowScripts, ...manifest } = readJson("package.json");
  for (const path of [...manifest.files, "README.md", "LICENSE"]) {
    if (path !== "sbom.cdx.json") cpSync(join(root, path), join(draft, path), { recursive: true, filter });
  }
  const version = archiveVersion(manifest.version, draft);
  writeFileSync(join(draft, "package.json"), `${JSON.stringify({ ...manifest, version }, null, 2)}\n`);
  writeFileSync(join(draft, "sbom.cdx.json"), `${JSON.stringify(billOfMaterials(version), null, 2)}\n`);
  process.stdout.write(npm(draft, "pack", "--silent", "--pack-destination", resolve(process.argv[2] ?? root)));
} finally {
  rmSync(draft, { recursive: true, force: true });
}
