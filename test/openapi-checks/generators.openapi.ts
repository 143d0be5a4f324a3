import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import { beforeAll, expect, it } from "vitest";
import { startHolderGateway } from "../gateway/holder-gateway.js";
import { freePort } from "../support/network.js";
import { runScript, TOOLS_FOLDER, tool } from "./tools.js";

/** How each generates a client from `dist/openapi.json`, and whether that compiles with `exactOptionalPropertyTypes`. */
const GENERATORS = {
  "openapi-typescript": {
    command: ["openapi-typescript/bin/cli.js", "dist/openapi.json", "--output", "dist/openapi-typescript.ts"],
    isExact: true,
  },
  "hey-api": {
    command: ["@hey-api/openapi-ts/bin/run.js", "--input", "./dist/openapi.json", "--output", "dist/hey-api"],
    isExact: false,
  },
  orval: { command: ["orval/dist/bin/orval.mjs", "--config", "orval.config.mjs"], isExact: true },
  kubb: { command: ["@kubb/cli/bin/kubb.cjs", "generate", "--config", "kubb.config.mjs"], isExact: true },
  oazapfts: { command: ["oazapfts/dist/cli.js", "dist/openapi.json", "dist/oazapfts.ts"], isExact: false },
};

const STRICT = ["--noEmit", "--strict", "--noUncheckedIndexedAccess", "--skipLibCheck", "--target", "es2022"];
const MODULES = ["--module", "esnext", "--moduleResolution", "bundler", "--allowImportingTsExtensions"];

const port = await freePort();
const PUBLIC_URL = `http://127.0.0.1:${port}`;
const { gateway, holder, listingId } = await startHolderGateway({ PORT: port, PUBLIC_URL });
const dist = join(TOOLS_FOLDER, "dist");

beforeAll(async () => {
  await rm(dist, { recursive: true, force: true });
  await mkdir(dist);
  const document = await fetch(`${gateway.url}/openapi.json`);
  await writeFile(join(dist, "openapi.json"), await document.text());
});

it.each(Object.entries(GENERATORS))(
  "a client that %s generates from the served document compiles in strict mode, creates, lists, fetches and updates forms, and has typed errors",
  { timeout: 180_000 },
  async (name, { command: [script = "", ...args], isExact }) => {
    await runScript(tool(script), args, TOOLS_FOLDER);
    const program = join(TOOLS_FOLDER, "clients", `${name}.ts`);
    const options = [...STRICT, ...MODULES, "--types", "node", ...(isExact ? ["--exactOptionalPropertyTypes"] : [])];
    await runScript(tool("typescript/bin/tsc"), [...options, program], TOOLS_FOLDER);
    const outfile = join(dist, `${name}.mjs`);
    await build({ entryPoints: [program], outfile, bundle: true, platform: "node", format: "esm" });
    const { stdout } = await runScript(outfile, [], TOOLS_FOLDER, {
      GUEST_FORMS_BASE_URL: gateway.url,
      GUEST_FORMS_API_KEY: holder.key,
      LISTING_ID: listingId,
    });
    expect(JSON.parse(stdout)).toEqual({
      created: [201, "SENT", 4, name],
      repeated: [201, true],
      listed: [200, 1],
      fetched: [200, true],
      updated: [200, 2, null],
      missing: [404, "RESOURCE_NOT_FOUND"],
      invalid: [400, "VALIDATION_ERROR", ["checkOutDate"]],
    });
  },
);
