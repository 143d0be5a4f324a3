import { cp, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { packageRoot } from "../../prisma/package-root.js";
import { makeTempFolder } from "./run-tool.js";

/** A copy of the built service with further migrations. */
export interface LaterVersion {
  folder: string;
  migrator: typeof import("../../prisma/migrate.js");
}

/** `migrations`: their SQL by name. */
export async function makeLaterVersion(migrations: Record<string, string>): Promise<LaterVersion> {
  const folder = await makeTempFolder("version");
  for (const path of ["package.json", "dist", "prisma/schema.prisma", "prisma/migrations"])
    await cp(join(packageRoot(), path), join(folder, path), { recursive: true });
  await symlink(join(packageRoot(), "node_modules"), join(folder, "node_modules"));
  for (const [name, sql] of Object.entries(migrations)) {
    await mkdir(join(folder, "prisma/migrations", name));
    await writeFile(join(folder, "prisma/migrations", name, "migration.sql"), sql);
  }
  return {
    folder,
    migrator: await import(pathToFileURL(join(folder, "dist/tools/prisma/migrate.js")).href),
  };
}
