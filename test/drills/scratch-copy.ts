import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../../prisma/package-root.js";
import { afterFile } from "../support/after-file.js";

const run = promisify(execFile);

/** A copy of the working tree, with a history of its own. */
export async function makeScratchCopy() {
  // On the same file system as the packages, which are linked: TypeScript cannot name types of a folder that is a link.
  const data = join(packageRoot(), ".data");
  await mkdir(data, { recursive: true });
  const folder = await mkdtemp(join(data, "drill-"));
  afterFile(() => rm(folder, { recursive: true, force: true }));
  const list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  const { stdout: files } = await run("git", list, { cwd: packageRoot(), maxBuffer: 16 << 20 });
  for (const file of files.split("\0").filter(Boolean)) await cp(join(packageRoot(), file), join(folder, file));
  await run("cp", ["-al", join(packageRoot(), "node_modules"), folder]);
  /** Runs a command in the copy, and returns its output. Rejects with the output if it fails. */
  const execute = async (command: string, ...args: string[]): Promise<string> => {
    const options = { cwd: folder, maxBuffer: 64 << 20, timeout: 300_000, env: { ...process.env, CI: "true" } };
    try {
      return (await run(command, args, options)).stdout;
    } catch (error) {
      const { message, stdout = "", stderr = "" } = error as Error & { stdout?: string; stderr?: string };
      throw new Error(`${message}\n${stdout.slice(-4_000)}\n${stderr.slice(-4_000)}`);
    }
  };
  await execute("git", "init", "--quiet");
  await execute("git", "add", "--all");
  const author = ["-c", "user.name=drill", "-c", "user.email=drill@example.com"];
  await execute("git", ...author, "commit", "--quiet", "--no-verify", "--message=before");
  return { folder, execute };
}
