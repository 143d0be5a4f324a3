import { defineConfig } from "prisma/config";

// The CLI would download a schema engine that `generate` never runs: any existing file satisfies its look-up.
process.env.PRISMA_SCHEMA_ENGINE_BINARY ??= process.execPath;

export default defineConfig({
  schema: "prisma/schema.prisma",
  migrations: { path: "prisma/migrations" },
});
