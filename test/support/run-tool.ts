import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterFile } from "./after-file.js";

/** Creates a temporary folder, removed after the test file. */
export async function makeTempFolder(name: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `guest-forms-${name}-`));
  afterFile(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Runs a command and returns its output, also if it fails. Rejects if it takes longer than `seconds`. */
export function runTool(command: string, args: string[], seconds: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { timeout: seconds * 1000, killSignal: "SIGKILL", maxBuffer: 64 << 20 } as const;
    execFile(command, args, options, (error, stdout, stderr) => {
      if (error?.killed) reject(new Error(`${command} took longer than ${seconds} s:\n${stdout.slice(-2_000)}`));
      else resolve(stdout + stderr);
    });
  });
}
