// Builds dist/esm and dist/cjs with tsc, each with its own types.
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(fileURLToPath(import.meta.url));

rmSync(join(root, "dist"), { recursive: true, force: true });
for (const config of ["tsconfig.json", "tsconfig.cjs.json"]) {
  const status = compile(join(root, config));
  if (status !== 0) process.exit(status ?? 1);
}
// Overrides the "type": "module" of the package for dist/cjs.
writeFileSync(join(root, "dist", "cjs", "package.json"), '{ "type": "commonjs" }\n');

/** Uses the installed compiler, or downloads it with `npm exec` in a checkout without node_modules. */
function compile(project) {
  const installed = findCompiler();
  if (installed) return spawnSync(process.execPath, [installed, "-p", project], { stdio: "inherit" }).status;
  const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const options = ["exec", "--yes", `--package=typescript@${devDependencies.typescript}`];
  return spawnSync("npm", [...options, "--", "tsc", "-p", project], {
    cwd: root,
    stdio: "inherit",
    shell: process.platform === "win32",
  }).status;
}

function findCompiler() {
  try {
    const manifest = createRequire(import.meta.url).resolve("typescript/package.json");
    return join(dirname(manifest), "bin", "tsc");
  } catch {
    return undefined;
  }
}
