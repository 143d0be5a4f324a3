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
  allowImportingTsExtensions: true,
  types: ["node"],
  typeRoots: [join(packageRoot(), "node_modules/@types")],
};

/**
 * Bundles a TypeScript program, with the SDK from its source, for Node.js. It loads other packages when it runs. Returns the path
 * of the bundle. `aliases` are the files of other modules.
 */
export async function bundleWithSdk(entry: string, aliases: Record<string, string> = {}): Promise<string> {
  const outfile = entry.replace(/ts$/, "mjs");
  const alias = { ...SDK, ...aliases };
  const options = { bundle: true, packages: "external", platform: "node", format: "esm" } as const;
  await build({ entryPoints: [entry], outfile, alias, ...options });
  return outfile;
}

/**
 * Compiles files of a folder that use the SDK, and returns what the compiler reports. `aliases` are the files of other modules.
 */
export async function compileWithSdk(
  folder: string,
  files: string[],
  aliases: Record<string, string> = {},
): Promise<string> {
  const paths = Object.fromEntries(Object.entries({ ...SDK, ...aliases }).map(([name, path]) => [name, [path]]));
  await writeFile(join(folder, "package.json"), '{ "type": "module" }');
  await writeFile(
    join(folder, "tsconfig.json"),
    JSON.stringify({ compilerOptions: { ...COMPILER_OPTIONS, paths }, files }),
  );
  return runTool(process.execPath, [TSC, "-p", folder], 120);
}
