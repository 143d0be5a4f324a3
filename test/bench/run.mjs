// Bundles the benchmark, because Node.js 20 cannot run TypeScript, and runs it.
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = new URL(".", import.meta.url);
process.env.BENCH_FOLDER ??= ".data/bench";
const outdir = new URL(`../../${process.env.BENCH_FOLDER}/build/`, here);
await build({
  absWorkingDir: fileURLToPath(here),
  entryPoints: ["main.ts", "peers/l-plus.ts", "peers/t.ts"],
  bundle: true,
  splitting: true,
  packages: "external",
  platform: "node",
  target: "node20",
  format: "esm",
  outExtension: { ".js": ".mjs" },
  outdir: fileURLToPath(outdir),
  logLevel: "error",
});
await import(new URL("main.mjs", outdir).href);
