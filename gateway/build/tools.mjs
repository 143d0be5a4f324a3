// Bundles what developers and tests run from this repository into `dist/tools/`. `npm run generate` and `npm run migration` need only
// this, so they also work while a change is half made.
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

export const root = fileURLToPath(new URL("../..", import.meta.url));

export const OPTIONS = {
  absWorkingDir: root,
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node20",
  logLevel: "warning",
};

/** They use the packages in `node_modules`. */
const TOOLS = [
  "gateway/generate/main.ts",
  "gateway/build/migration/new-migration.ts",
  "gateway/dev/embedded.ts",
  "gateway/docs/site.ts",
  "gateway/runtime/log.ts",
  "prisma/migrate.ts",
  "server/config.ts",
  "server/emails/mailer.ts",
  "server/webhooks/request.ts",
];

export const bundleTools = () =>
  build({ ...OPTIONS, entryPoints: TOOLS, outbase: ".", outdir: "dist/tools", packages: "external" });

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundleTools();
