import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { packageRoot } from "../../prisma/package-root.js";

const dataUrl = (script: string) => `data:text/javascript,${encodeURIComponent(script)}`;

const LOADER = dataUrl(`import { writeSync } from "node:fs";
  export function load(url, context, next) {
    writeSync(2, "loaded " + url + "\\n");
    return next(url, context);
  }`);

/** Options of node for a program that writes the URLs of the modules that it loads to standard error. */
export const REPORT_MODULES = [
  "--import",
  dataUrl(`import { register } from "node:module"; register(${JSON.stringify(LOADER)});`),
];

/** The packages in the chunks of the bundle that such a program has loaded. */
export function loadedPackages(stderr: string): string[] {
  const root = packageRoot();
  const { outputs }: { outputs: Record<string, { inputs: object }> } = JSON.parse(
    readFileSync(join(root, "dist/tools/metafile.json"), "utf8"),
  );
  const urls = stderr.match(/(?<=^loaded )file:.*$/gm) ?? [];
  const inputs = urls.flatMap((url) => Object.keys(outputs[relative(root, fileURLToPath(url))]?.inputs ?? {}));
  return [...new Set(inputs.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []))];
}
