// `npm run soak`: bundles soak.ts, because Node.js 20 cannot run TypeScript, and runs the bundle.
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const outfile = join(here, "../../node_modules/.cache/guest-forms", "soak.js");
await build({
  entryPoints: [join(here, "soak.ts")],
  outfile,
  bundle: true,
  packages: "external",
  platform: "node",
  format: "esm",
  target: "node20",
  logLevel: "warning",
});
await import(pathToFileURL(outfile).href);
