// Part of the build. Bundles packages into dist so that they need not be `dependencies`:
// - Prisma's generated client: @prisma/client contains query compilers for five databases (72 MB), and only one is needed.
// - trpc-to-openapi: it depends on 21 packages for frameworks that are not used here.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../..", import.meta.url));
const { dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

rmSync(join(root, "dist/bundled"), { recursive: true, force: true });
const { metafile } = await build({
  absWorkingDir: root,
  entryPoints: ["dist/prisma/client/client.js", "dist/gateway/operations/library.js"],
  outbase: "dist",
  outdir: "dist",
  allowOverwrite: true,
  bundle: true,
  // Keeps dynamic imports, such as the query compiler, in separate files.
  splitting: true,
  chunkNames: "bundled/[name]-[hash]",
  format: "esm",
  platform: "node",
  target: "node20",
  external: Object.keys(dependencies).flatMap((name) => [name, `${name}/*`]),
  // For bundled CommonJS modules.
  banner: {
    js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);',
  },
  metafile: true,
  logLevel: "warning",
});

const bundled = Object.values(metafile.outputs).flatMap(({ inputs }) => Object.keys(inputs));
const folders = new Set(bundled.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []));
writeFileSync(join(root, "dist/LICENSES"), [...folders].sort().map(licenseText).join("\n"));

function licenseText(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
  const file = readdirSync(join(root, folder)).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file ? readFileSync(join(root, folder, file), "utf8").trim() : "";
  return `${name} ${version} (${license})\n\n${text}\n`;
}
