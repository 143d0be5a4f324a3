import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { packageRoot } from "../../prisma/package-root.js";
import { afterFile } from "./after-file.js";
import { TEST_SECRET } from "./factories.js";
import { recordRun } from "./ran-commands.js";

export interface ProcessResult {
  stdout: string;
  stderr: string;
  /** Null if a signal ended the process. */
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface SpawnOptions {
  /** The child's environment variables. It also gets PATH, HOME and TMPDIR, and no others. */
  env?: Record<string, string | undefined>;
  cwd?: string;
  /** Put before the command, such as `sh -c`. */
  commandPrefix?: string[];
}

/** Starts `guest-forms` with these arguments and, by default, TEST_SECRET. It is stopped after the test file. */
export function spawnCli(args: string[], options: SpawnOptions = {}): RunningProcess {
  const env = { APP_SECRETS: TEST_SECRET, ...options.env };
  const running = spawnNode([join(packageRoot(), "dist/main.js"), ...args], { ...options, env });
  running.done.then(
    ({ code }) => code === 0 && recordRun({ command: ["guest-forms", ...args].join(" ") }),
    () => {},
  );
  return running;
}

/** Runs `guest-forms` with these arguments until it exits. */
export const runCli = (args: string[], options: SpawnOptions = {}) => spawnCli(args, options).done;

/** Starts node with these arguments. It is stopped after the test file. */
export function spawnNode(args: string[], { env = {}, cwd, commandPrefix = [] }: SpawnOptions = {}): RunningProcess {
  const { PATH, HOME, TMPDIR } = process.env;
  const [command = process.execPath, ...rest] = [...commandPrefix, process.execPath, ...args];
  const child = spawn(command, rest, {
    env: { PATH, HOME, TMPDIR, ...env },
    ...(cwd ? { cwd } : {}),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const running = new RunningProcess(child);
  afterFile(() => running.stopOrKill());
  return running;
}

/** A child process and its output. */
export class RunningProcess {
  stdout = "";
  stderr = "";
  /** Settles when the process has exited and its output has been read. */
  readonly done: Promise<ProcessResult>;
  hasExited = false;
  private readonly child: ChildProcess;

  constructor(child: ChildProcess) {
    this.child = child;
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.stdout += text;
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
    });
    this.done = new Promise((resolve, reject) => {
      child.once("error", (error) => {
        this.hasExited = true;
        reject(error);
      });
      child.once("close", (code, signal) => {
        this.hasExited = true;
        resolve({ stdout: this.stdout, stderr: this.stderr, code, signal });
      });
    });
    this.done.catch(() => {});
  }

  get pid(): number {
    return Number(this.child.pid);
  }

  /** Returns the first line of either stream that matches. Rejects with the output on exit or timeout. */
  async waitForLine(pattern: RegExp, timeoutMs = 45_000): Promise<RegExpExecArray> {
    const anyLine = new RegExp(pattern.source, pattern.flags.replace("g", ""));
    for (const began = performance.now(); ; await sleep(10)) {
      // Read first, because the output may grow until the exit.
      const { hasExited } = this;
      for (const line of [...completeLines(this.stdout), ...completeLines(this.stderr)]) {
        const match = anyLine.exec(line);
        if (match) return match;
      }
      const why = hasExited ? "The process exited" : `${timeoutMs} ms passed`;
      if (hasExited || performance.now() - began > timeoutMs)
        throw new Error(`${why} before a line matching ${pattern}:\n${this.stdout}\n${this.stderr}`);
    }
  }

  /** Sends the signal and waits for the exit. */
  stop(signal: NodeJS.Signals = "SIGTERM"): Promise<ProcessResult> {
    this.child.kill(signal);
    return this.done;
  }

  /** Sends SIGTERM, and SIGKILL if it is still running after `timeoutMs`. */
  async stopOrKill(timeoutMs = 5_000): Promise<void> {
    if (this.hasExited) return;
    const timer = setTimeout(() => this.child.kill("SIGKILL"), timeoutMs);
    await this.stop().catch(() => {});
    clearTimeout(timer);
  }
}

const completeLines = (text: string) => text.split("\n").slice(0, -1);

/** Whether a process with this id is running. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
