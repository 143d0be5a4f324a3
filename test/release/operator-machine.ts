import { execFile, spawn } from "node:child_process";
import { chmod, mkdir, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../../prisma/package-root.js";
import { afterFile } from "../support/after-file.js";
import { operatingBlock, operatingInline, runScript } from "../support/operating-page.js";
import { RunningProcess } from "../support/processes.js";
import { makeTempFolder } from "../support/run-tool.js";

/** A machine in a temporary folder, on which an operator runs the commands of gateway/docs/operating.md. */
export class OperatorMachine {
  /** Has the machine's `/opt`, `/etc` and `/usr/local/bin`. */
  readonly folder: string;
  /** Environment variables of commands. */
  env: Record<string, string> = {};
  /** What to replace in commands, such as names of servers. */
  replace: Record<string, string>;

  private constructor(folder: string) {
    this.folder = folder;
    const paths = ["/opt/", "/etc/", "/usr/local/bin"];
    this.replace = Object.fromEntries(paths.map((path) => [path, join(folder, path)]));
  }

  /** A machine with the packed release. */
  static async create(): Promise<OperatorMachine> {
    const folder = await makeTempFolder("operator");
    // If run as root, an embedded Postgres runs as another user.
    await chmod(folder, 0o755);
    for (const path of ["opt", "etc/systemd/system", "usr/local/bin"])
      await mkdir(join(folder, path), { recursive: true });
    const machine = new OperatorMachine(folder);
    await promisify(execFile)(process.execPath, [join(packageRoot(), "gateway/dev/pack.mjs"), folder]);
    return machine;
  }

  /** Runs the block of the page that contains `text`, and returns its output. */
  runBlock = async (text: string): Promise<string> => (await this.#run(operatingBlock(text))).stdout;

  /** Runs the inline command that is or contains `text`, with its placeholders replaced. */
  runInline = async (text: string, replace: Record<string, string> = {}): Promise<string> =>
    (await this.#run(operatingInline(text), replace)).stdout;

  #run(script: string, replace: Record<string, string> = {}) {
    return runScript(script, {
      env: this.env,
      cwd: this.folder,
      binFolders: this.#binFolders,
      replace: { ...this.replace, ...replace },
    });
  }

  get #binFolders(): string[] {
    return [join(this.folder, "usr/local/bin"), dirname(process.execPath)];
  }

  /** Keeps the variables that the block sets for later commands. */
  async exportBlock(text: string): Promise<void> {
    const { stdout } = await this.#run(`${operatingBlock(text)}\nenv -0`);
    const variables = stdout.split("\0").map((entry) => [entry.split("=", 1)[0], entry.replace(/^\w+=/, "")]);
    this.env = Object.fromEntries(variables.filter(([name]) => name && !["PATH", "PWD", "_"].includes(name)));
  }

  /** Starts a block whose last command is `command`, which runs until it is stopped. */
  startBlock(text: string, command: string): RunningProcess {
    const script = operatingBlock(text).replace(command, `exec ${command}`);
    const PATH = [...this.#binFolders, process.env.PATH].join(":");
    const child = spawn("sh", ["-euc", script], { cwd: this.folder, env: { ...this.env, PATH } });
    const running = new RunningProcess(child);
    afterFile(() => running.stopOrKill());
    return running;
  }

  /** The folder of the release. */
  async installed(): Promise<string> {
    const [name = ""] = (await readdir(join(this.folder, "opt"))).filter((each) => /\d/.test(each));
    return join(this.folder, "opt", name);
  }
}
