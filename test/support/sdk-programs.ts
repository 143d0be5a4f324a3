import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import { packageRoot } from "../../prisma/package-root.js";
import { runTool } from "./run-tool.js";

const SDK = {
  "@guest-forms/sdk/testing": join(packageRoot(), "sdk/src/testing.ts"),
  "@guest-forms/sdk/webhooks": join(packageRoot(), "sdk/src/webhooks.ts"),
  "@guest-forms/sdk": join(packageRoot(), "sdk/src/index.ts"),
};
const TSC = join(packageRoot(), "node_modules/typescript/bin/tsc");

/** As strict as a user's project can be. */
const COMPILER_OPTIONS = {
  target: "es2022",
  module: "nodenext",
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  noEmit: true,
  types: ["node"],
  typeRoots: [join(packageRoot(), "node_modules/@types")],
  paths: Object.fromEntries(Object.entries(SDK).map(([name, path]) => [name, [path]])),
};

/** Bundles a TypeScript program, with the SDK from its source, for Node.js. Returns the path of the bundle. */
export async function bundleWithSdk(entry: string): Promise<string> {
  const outfile = entry.replace(/ts$/, "mjs");
  await build({ entryPoints: [entry], outfile, alias: SDK, bundle: true, platform: "node", format: "esm" });
  return outfile;
}

/** Compiles files of a folder that use the SDK, and returns what the compiler reports. */
export async function compileWithSdk(folder: string, files: string[]): Promise<string> {
  await writeFile(join(folder, "package.json"), '{ "type": "module" }');
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: COMPILER_OPTIONS, files }));
  return runTool(process.execPath, [TSC, "-p", folder], 120);
}
