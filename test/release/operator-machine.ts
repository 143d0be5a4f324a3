import { execFile, spawn } from "node:child_process";
import { chmod, cp, mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../../prisma/package-root.js";
import { afterFile } from "../support/after-file.js";
import { operatingBlock, operatingInline, runFromPage, runScript } from "../support/operating-page.js";
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
  runBlock = async (text: string): Promise<string> =>
    (await runFromPage(operatingBlock(text), (script) => this.#run(script))).stdout;

  /** Runs the inline command that is or contains `text`, with its placeholders replaced. */
  runInline = async (text: string, replace: Record<string, string> = {}): Promise<string> =>
    (await runFromPage(operatingInline(text), (script) => this.#run(script, replace))).stdout;

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
    const { stdout } = await runFromPage(operatingBlock(text), (script) => this.#run(`${script}\nenv -0`));
    const variables = stdout.split("\0").map((entry) => [entry.split("=", 1)[0], entry.replace(/^\w+=/, "")]);
    this.env = Object.fromEntries(variables.filter(([name]) => name && !["PATH", "PWD", "_"].includes(name)));
  }

  /** Starts a block or inline code of the page whose last command is `command`, which runs until it is stopped. */
  start(source: string, command: string): RunningProcess {
    const script = source.replace(command, `exec ${command}`);
    const PATH = [...this.#binFolders, process.env.PATH].join(":");
    const child = spawn("sh", ["-euc", script], { cwd: this.folder, env: { ...this.env, PATH } });
    const running = new RunningProcess(child);
    afterFile(() => running.stopOrKill());
    const succeeded = async () => {
      const { code, stderr } = await running.done;
      if (code !== 0) throw new Error(`${command} exited with ${code}: ${stderr}`);
    };
    runFromPage(source, succeeded).catch(() => {});
    return running;
  }

  /** Unpacks a later version as its page describes: the installed one, with one more migration. */
  async addVersion(version: string, migration: { name: string; sql: string }): Promise<void> {
    const installed = await this.installed();
    const next = join(this.folder, `opt/guest-forms-${version}`);
    const packages = join(installed, "node_modules");
    await cp(installed, next, { recursive: true, filter: (path) => path !== packages });
    await symlink(packages, join(next, "node_modules"));
    const folder = join(next, "prisma/migrations", migration.name);
    await mkdir(folder);
    await writeFile(join(folder, "migration.sql"), migration.sql);
  }

  /** The folder of the release. */
  async installed(): Promise<string> {
    const [name = ""] = (await readdir(join(this.folder, "opt"))).filter((each) => /\d/.test(each));
    return join(this.folder, "opt", name);
  }
}
