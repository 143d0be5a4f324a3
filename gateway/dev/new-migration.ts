import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeMigration } from "../../prisma/diff.js";
import { removeEmbedded, startEmbedded } from "./embedded.js";

// `npm run migration -- name`: writes what the migrations lack to equal schema.prisma. For developers; DATABASE_URL
// names a server to try them out on, in a database made for it, where the embedded one will not do.

async function onServer<Result>(work: (url: string) => Promise<Result>): Promise<Result> {
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
  const folder = await onServer((url) => writeMigration(url, name));
  console.log(
    folder ? `Wrote ${folder}: read it before you commit it.` : "The migrations equal schema.prisma.",
  );
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
