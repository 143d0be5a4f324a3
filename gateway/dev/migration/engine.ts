import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

type Engine = typeof import("@prisma/schema-engine-wasm/schema_engine_bg");

let engine: Promise<Engine> | undefined;

/**
 * Loads Prisma's schema engine (WebAssembly) once: a second instance would break the first. Unlike the binary of Prisma's
 * CLI, it needs no download.
 */
export function loadEngine(): Promise<Engine> {
  engine ??= load();
  return engine;
}

// TypeScript declares WebAssembly only in its DOM library.
declare const WebAssembly: {
  instantiate(code: Uint8Array, imports: object): Promise<{ instance: { exports: Record<string, unknown> } }>;
};

// The package's entry imports the .wasm file as a module, which Node 20 does not support.
async function load(): Promise<Engine> {
  const glue = await import("@prisma/schema-engine-wasm/schema_engine_bg");
  const entry = createRequire(import.meta.url).resolve("@prisma/schema-engine-wasm/schema_engine_bg");
  const code = await readFile(join(dirname(entry), "schema_engine_bg.wasm"));
  const { instance } = await WebAssembly.instantiate(code, { "./schema_engine_bg.js": glue });
  glue.__wbg_set_wasm(instance.exports);
  const start = instance.exports.__wbindgen_start;
  if (typeof start === "function") start();
  return glue;
}

// The engine calls this global when it panics.
Object.assign(globalThis, {
  PRISMA_WASM_PANIC_REGISTRY: {
    set_message(message: string) {
      throw new Error(`Prisma's schema engine failed: ${message}`);
    },
  },
});
