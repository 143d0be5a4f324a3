import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { useGateway } from "../sdk/setup.js";
import { makeTempFolder } from "../support/run-tool.js";

export const root = packageRoot();
export const sdkFolder = join(root, "sdk");
export const TSC = join(root, "node_modules/typescript/bin/tsc");
export const TSC_5 = join(root, "node_modules/@arethetypeswrong/core/node_modules/typescript/bin/tsc");

/** Clones the last commit of the repository into `folder`: no packages, no build, no uncommitted changes. */
export async function makeCleanClone(folder: string): Promise<void> {
  await promisify(execFile)("git", ["clone", "--quiet", "--no-hardlinks", root, folder]);
}

interface CommandResult {
  code: number;
  output: string;
  stdout: string;
}

/** Starts a gateway that programs with the SDK call, and makes a folder for them. Call it once per test file. */
export async function useSdk() {
  const gateway = await useGateway();
  const folder = await makeTempFolder("sdk");

  /** Runs a command with the settings of the SDK in its environment. */
  async function run(cwd: string, command: string, ...args: string[]): Promise<CommandResult> {
    const { readWrite, proxy } = gateway;
    const env = { ...process.env, GUEST_FORMS_API_KEY: readWrite, GUEST_FORMS_BASE_URL: proxy.url };
    try {
      const { stdout, stderr } = await promisify(execFile)(command, args, { cwd, env });
      return { code: 0, output: stdout + stderr, stdout };
    } catch (error) {
      const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
      return { code, output: stdout + stderr, stdout };
    }
  }

  /** Runs a command that must succeed, and returns its standard output. */
  async function succeed(cwd: string, command: string, ...args: string[]): Promise<string> {
    const { code, output, stdout } = await run(cwd, command, ...args);
    expect(code, output).toBe(0);
    return stdout;
  }

  /** Creates a project with these files. */
  async function createProject(name: string, files: Record<string, unknown>): Promise<string> {
    const project = join(folder, name);
    await mkdir(project);
    for (const [path, content] of Object.entries(files))
      await writeFile(join(project, path), typeof content === "string" ? content : JSON.stringify(content));
    return project;
  }

  const node = (cwd: string, ...args: string[]) => run(cwd, process.execPath, ...args);
  return { gateway, folder, node, succeed, createProject };
}
