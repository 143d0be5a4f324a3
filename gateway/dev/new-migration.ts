import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeMigrations } from "../../prisma/diff.js";
import { removeEmbedded, startEmbedded } from "./embedded.js";

// `npm run migration -- name`: writes the migrations for the difference between the migrations and schema.prisma. It applies
// them to a temporary database on the embedded Postgres, or on the server of DATABASE_URL if set.

async function withServer<Result>(work: (url: string) => Promise<Result>): Promise<Result> {
  if (process.env.DATABASE_URL) return work(process.env.DATABASE_URL);
  const dataDir = await mkdtemp(join(tmpdir(), "guest-forms-migration-"));
  try {
    const server = await startEmbedded({ dataDir, durable: false });
    return await work(server.url).finally(() => server.stop());
  } finally {
    await removeEmbedded(dataDir);
  }
}

const [name = ""] = process.argv.slice(2);
try {
  const written = await withServer((url) => writeMigrations(url, name));
  if (written.length === 0) console.log("The migrations match schema.prisma.");
  for (const { folder, violations } of written) {
    console.log(`Wrote ${folder}: review it before you commit it.`);
    for (const violation of violations) console.log(`  It ${violation}.`);
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
