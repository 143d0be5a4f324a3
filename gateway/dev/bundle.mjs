// Part of the build. Bundles into dist what is no `dependency` of the package, so that it is not installed with it:
// - Prisma's generated client. @prisma/client holds query compilers for five databases (72 MB), and one is needed.
// - trpc-to-openapi, which brings 21 packages for frameworks that are not used here.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../..", import.meta.url));
const { dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

rmSync(join(root, "dist/bundled"), { recursive: true, force: true });
const { metafile } = await build({
  absWorkingDir: root,
  entryPoints: ["dist/prisma/client/client.js", "dist/gateway/openapi/library.js"],
  outbase: "dist",
  outdir: "dist",
  allowOverwrite: true,
  bundle: true,
  // What is imported dynamically, such as the query compiler, stays a file of its own.
  splitting: true,
  chunkNames: "bundled/[name]-[hash]",
  format: "esm",
  platform: "node",
  target: "node20",
  external: Object.keys(dependencies).flatMap((name) => [name, `${name}/*`]),
  // For the CommonJS modules among them.
  banner: {
    js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);',
  },
  metafile: true,
  logLevel: "warning",
});

const bundled = Object.values(metafile.outputs).flatMap(({ inputs }) => Object.keys(inputs));
const folders = new Set(
  bundled.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []),
);
writeFileSync(join(root, "dist/LICENSES"), [...folders].sort().map(licence).join("\n"));

/** The licence of a package in words. */
function licence(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
  const file = readdirSync(join(root, folder)).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file ? readFileSync(join(root, folder, file), "utf8").trim() : "";
  return `${name} ${version} (${license})\n\n${text}\n`;
}
