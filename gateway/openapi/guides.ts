import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";

const folder = () => join(packageRoot(), "gateway", "docs", "guides");

/** The guides, in the order of their file names: what the reference says before the operations. */
export function readGuides(): string {
  const names = readdirSync(folder()).filter((name) => name.endsWith(".md"));
  return names
    .sort()
    .map((name) => readFileSync(join(folder(), name), "utf8").trim())
    .join("\n\n");
}
