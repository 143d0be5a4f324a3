import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { packageRoot } from "../../prisma/package-root.js";

/** Clones the last commit of the repository into `folder`: no packages, no build, no uncommitted changes. */
export async function makeCleanClone(folder: string): Promise<void> {
  await promisify(execFile)("git", ["clone", "--quiet", "--no-hardlinks", packageRoot(), folder]);
}
