// Builds both module formats with plain tsc: dist/esm and dist/cjs, each with its own types.
import { spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(fileURLToPath(import.meta.url));
const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc");

rmSync(join(root, "dist"), { recursive: true, force: true });
for (const config of ["tsconfig.json", "tsconfig.cjs.json"]) {
  const { status } = spawnSync(process.execPath, [tsc, "-p", join(root, config)], { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
// Without it, Node and TypeScript would read dist/cjs by the "type": "module" of the package.
writeFileSync(join(root, "dist", "cjs", "package.json"), '{ "type": "commonjs" }\n');
