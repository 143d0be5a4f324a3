// Part of `npm run build`: bundles the service and its packages into `dist/`, so that it runs with Node.js alone, builds its
// documentation pages and packs the SDK. What a command does not need is in chunks that it does not load. Only the embedded Postgres of `dev` is not bundled.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { build } from "esbuild";
import { rollup } from "rollup";
import { dts } from "rollup-plugin-dts";
import { bundledPackages } from "./bundled-packages.mjs";
import { bundleTools, OPTIONS, root } from "./tools.mjs";

/**
 * tRPC is built for ES2017, and spreads objects with a helper: 12 of the 158 µs of CPU time of a fetch, with 11.25. This
 * replaces it by the language's own. The helper copies the getters of every second source; tRPC's sources have none.
 */
const nativeSpread = {
  name: "native-spread",
  setup({ onLoad, onEnd }) {
    let replaced = 0;
    onLoad({ filter: /@trpc\/server\/dist\/.*\.mjs$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replace(/function _objectSpread2\(e\) \{\n[\s\S]*?\n\}\n/, () => {
        replaced++;
        return "function _objectSpread2(target, ...sources) { return Object.assign(target, ...sources); }\n";
      }),
    }));
    onEnd(() => {
      if (replaced !== 1)
        throw new Error(`@trpc/server has ${replaced} helpers for object spread, not 1: see build.mjs.`);
    });
  },
};

/** trpc-to-openapi reads bodies with co-body (0.7 MB), but the gateway always passes a body that it has read. */
const withoutCoBody = {
  name: "without-co-body",
  setup({ onResolve, onLoad }) {
    const contents = 'module.exports = () => { throw new Error("co-body is not bundled: see build.mjs."); };';
    onResolve({ filter: /^co-body$/ }, ({ path }) => ({ path, namespace: "not-bundled" }));
    onLoad({ filter: /./, namespace: "not-bundled" }, () => ({ contents }));
  },
};

/** Zod exports its messages in 60 languages (0.4 MB). The gateway has its own. */
const withoutLocales = {
  name: "without-locales",
  setup({ onLoad }) {
    onLoad({ filter: /zod\/v4\/locales\/index\.js$/ }, () => ({
      contents: 'export { default as en } from "./en.js";',
    }));
  },
};

async function bundleService() {
  const { metafile } = await build({
    ...OPTIONS,
    entryPoints: ["gateway/main.ts", "server/caller.ts", "server/router.ts"],
    entryNames: "[name]",
    chunkNames: "chunks/[name]-[hash]",
    outdir: "dist",
    // pg loads it only if asked to.
    external: ["pg-native"],
    // For bundled CommonJS modules.
    banner: {
      js: 'import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);',
    },
    plugins: [nativeSpread, withoutCoBody, withoutLocales],
    metafile: true,
  });
  return metafile;
}

/** The scripts of the documentation pages. */
const bundlePages = () =>
  build({
    ...OPTIONS,
    entryPoints: ["gateway/docs/browser/page.js", "gateway/docs/browser/try-it.js"],
    outdir: "dist/tools/browser",
    platform: "browser",
    target: "es2022",
    minify: true,
    metafile: true,
  });

/** The console: `dist/console/index.html`, and what it loads in `assets/`. */
async function bundleConsole() {
  const folder = "gateway/console/browser";
  const { metafile } = await build({
    ...OPTIONS,
    entryPoints: [{ in: `${folder}/main.tsx`, out: "console" }, `${folder}/console.css`],
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    outdir: "dist/console/assets",
    platform: "browser",
    target: "es2022",
    minify: true,
    metafile: true,
    tsconfig: `${folder}/tsconfig.json`,
  });
  const names = Object.keys(metafile.outputs).map((path) => basename(path));
  const page = readFileSync(join(root, folder, "index.html"), "utf8").replace(/\{\{(\w+)\}\}/g, (_, type) => {
    return `/console/assets/${names.find((name) => name.startsWith("console-") && name.endsWith(`.${type}`))}`;
  });
  writeFileSync(join(root, "dist/console/index.html"), page);
  return metafile;
}

/** Types that need no package but tRPC, from the declarations that `tsc` has written. */
async function bundleTypes() {
  const declarations = join(root, "dist/types");
  const input = Object.fromEntries(
    ["caller", "router"].map((name) => [name, join(declarations, `server/${name}.d.ts`)]),
  );
  const types = await rollup({
    input,
    external: [/^@trpc\/server/, /^node:/],
    plugins: [dts({ respectExternal: true })],
    // Some of the types that the exported ones need have no name that users can import.
    onLog: (level, { message }, log) => message.includes("no public re-export") || log(level, message),
  });
  await types.write({ dir: join(root, "dist"), entryFileNames: "[name].d.ts", chunkFileNames: "shared.d.ts" });
  rmSync(declarations, { recursive: true });
}

/** Packages under the MIT license whose text is only in their repository. */
const COPYRIGHT = { "@redis/client": "Copyright (c) 2022-2025, Redis, inc." };

/** The license of a package from its file, or the section of its README. */
function licenseText({ name, version, license, folder }) {
  const read = (path) => readFileSync(join(root, path), "utf8").trim();
  const names = readdirSync(join(root, folder));
  const find = (pattern) => {
    const found = names.find((entry) => pattern.test(entry));
    return found && read(join(folder, found));
  };
  const text =
    find(/^licen[cs]e/i) ??
    /^#+ licen[cs]e\n(.*?)(?:^#|$(?!.))/ims.exec(find(/^readme/i) ?? "")?.[1].trim() ??
    (license === "MIT" && COPYRIGHT[name] && read("LICENSE").replace(/^Copyright.*/m, COPYRIGHT[name]));
  if (!text) throw new Error(`${name} has no license text: add its copyright to build.mjs.`);
  return `${name} ${version} (${license})\n\n${text}\n`;
}

/** Packs the SDK, which the service serves. */
function packSdk() {
  const npm = (...words) =>
    execFileSync("npm", words, { cwd: join(root, "sdk"), encoding: "utf8", shell: process.platform === "win32" });
  const name = npm("pack", "--silent", "--ignore-scripts=false", "--pack-destination", join(root, "dist"));
  renameSync(join(root, "dist", name.trim().split("\n").at(-1)), join(root, "dist/sdk.tgz"));
}

// Whatever an earlier build has left: the release packs this folder.
for (const name of readdirSync(join(root, "dist"))) {
  if (name !== "types") rmSync(join(root, "dist", name), { recursive: true });
}
const service = await bundleService();
await bundleTools();
const pages = await bundlePages();
const consolePages = await bundleConsole();
const metafile = { outputs: { ...service.outputs, ...pages.metafile.outputs, ...consolePages.outputs } };
await bundleTypes();
const { buildSite } = await import(new URL("../../dist/tools/gateway/docs/site.js", import.meta.url));
writeFileSync(join(root, "dist/site.json"), JSON.stringify(buildSite()));
packSdk();
writeFileSync(join(root, "dist/tools/metafile.json"), JSON.stringify(metafile));
writeFileSync(join(root, "dist/LICENSES"), bundledPackages(metafile, root).map(licenseText).join("\n"));
