import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { migrationNames, migrationsFolder } from "../../../prisma/migration-files.js";
import { removeEmbedded, startEmbedded } from "../../dev/embedded.js";
import { diffSchema } from "./diff.js";

// `npm run migration -- name`: writes a migration with the difference between the migrations and schema.prisma, which
// Prisma's engine finds on a temporary database of the embedded Postgres, or of the server of DATABASE_URL if set.

async function findDifference(): Promise<string> {
  if (process.env.DATABASE_URL) return diffSchema(process.env.DATABASE_URL);
  const dataDir = await mkdtemp(join(tmpdir(), "guest-forms-migration-"));
  try {
    const server = await startEmbedded({ dataDir, durable: false });
    return await diffSchema(server.url).finally(() => server.stop());
  } finally {
    await removeEmbedded(dataDir);
  }
}

async function writeMigration(name: string): Promise<string> {
  if (!/^[a-z][a-z0-9_]*$/.test(name))
    throw new Error("Invalid migration name. Use lower-case letters, digits and _, starting with a letter.");
  const sql = await findDifference();
  if (sql === "") return "The migrations match schema.prisma.";
  // Migrations run in order of name, so it is later than the newest one even if the clock is behind.
  const now = Number(new Date().toISOString().replace(/\D/g, "").slice(0, 14));
  const newest = Number.parseInt((await migrationNames()).at(-1) ?? "0", 10);
  const folder = join(migrationsFolder(), `${Math.max(now, newest + 1)}_${name}`);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "migration.sql"), sql);
  return `Wrote ${folder}: review it, and run \`npx vitest run test/prisma/migration-rules.test.ts\`.`;
}

try {
  console.log(await writeMigration(process.argv[2] ?? ""));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
