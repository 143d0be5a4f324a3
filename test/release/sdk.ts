import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect } from "vitest";
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

type Gateway = ReturnType<typeof useGateway>;

/** The gateway that programs with the SDK call, and a folder for them. */
export class SdkUse {
  readonly gateway: Gateway = useGateway();
  /** A temporary folder. */
  folder = "";
  /** The folder of the SDK in a clean clone, and the tarball packed there; see `packSdk`. */
  clone = "";
  tarball = "";

  /** Call it once per test file. `prepare` runs before the tests. */
  constructor(prepare: (use: SdkUse) => Promise<unknown>) {
    beforeAll(async () => {
      this.folder = await makeTempFolder("sdk");
      await prepare(this);
    });
  }

  /** Runs a command with the settings of the SDK in its environment. */
  async run(cwd: string, command: string, ...args: string[]): Promise<CommandResult> {
    const { readWrite, proxy } = this.gateway;
    const env = { ...process.env, GUEST_FORMS_API_KEY: readWrite, GUEST_FORMS_BASE_URL: proxy.url };
    try {
      const { stdout, stderr } = await promisify(execFile)(command, args, { cwd, env });
      return { code: 0, output: stdout + stderr, stdout };
    } catch (error) {
      const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
      return { code, output: stdout + stderr, stdout };
    }
  }

  node(cwd: string, ...args: string[]): Promise<CommandResult> {
    return this.run(cwd, process.execPath, ...args);
  }

  /** Runs a command that must succeed, and returns its standard output. */
  async succeed(cwd: string, command: string, ...args: string[]): Promise<string> {
    const { code, output, stdout } = await this.run(cwd, command, ...args);
    expect(code, output).toBe(0);
    return stdout;
  }

  /** Packs the SDK as a publisher does: `npm pack`, whose `prepack` builds it, in a clean clone. */
  async packSdk(): Promise<void> {
    const repository = join(this.folder, "guest-forms");
    await makeCleanClone(repository);
    this.clone = join(repository, "sdk");
    // The user may have turned install scripts off, as the repository does.
    const flags = ["--json", "--ignore-scripts=false", "--pack-destination", this.folder];
    const stdout = await this.succeed(this.clone, "npm", "pack", ...flags);
    const [{ filename }] = JSON.parse(stdout.slice(stdout.indexOf("["))) as [{ filename: string }];
    this.tarball = join(this.folder, filename);
  }

  /** Creates a project with these files. */
  async createProject(name: string, files: Record<string, unknown>): Promise<string> {
    const project = join(this.folder, name);
    for (const [path, content] of Object.entries(files)) {
      await mkdir(dirname(join(project, path)), { recursive: true });
      await writeFile(join(project, path), typeof content === "string" ? content : JSON.stringify(content));
    }
    return project;
  }

  /** Creates a project with these files, and installs the packed SDK in it. */
  async createProjectWithSdk(name: string, files: Record<string, unknown>): Promise<string> {
    const project = await this.createProject(name, files);
    const flags = ["--offline", "--ignore-scripts", "--no-audit", "--no-fund"];
    await this.succeed(project, "npm", "install", ...flags, this.tarball);
    return project;
  }
}
