import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterFile } from "../support/after-file.js";
import { AS_POSTGRES } from "../support/installed-postgres.js";

/** A server that runs as the user of Postgres, in a process group of its own. It is killed after the test file. */
export class Daemon {
  readonly #command: string[];
  readonly #env: Record<string, string>;
  readonly #folder: string;
  #child: ChildProcess | undefined;

  /** `folder` is its working directory, its home and the place of its log. */
  constructor(command: string[], env: Record<string, string>, folder: string) {
    this.#command = command;
    this.#env = env;
    this.#folder = folder;
    afterFile(() => this.kill());
  }

  /** Does nothing if it is running. */
  start(): void {
    if (this.#isRunning) return;
    const [program = "", ...args] = [...AS_POSTGRES, ...this.#command];
    // Not a pipe: servers that it starts keep the log open after its end.
    const log = openSync(this.#logFile, "a");
    this.#child = spawn(program, args, {
      env: { PATH: process.env.PATH, HOME: this.#folder, ...this.#env },
      cwd: this.#folder,
      detached: true,
      stdio: ["ignore", log, log],
    });
  }

  /** Signals all processes of its group. Does nothing if it is not running. */
  signal(name: NodeJS.Signals): void {
    if (this.#child?.pid && this.#isRunning) process.kill(-this.#child.pid, name);
  }

  /** Kills it without a graceful shutdown, like a crash. */
  async kill(): Promise<void> {
    if (!this.#child || !this.#isRunning) return;
    const exit = once(this.#child, "exit");
    this.signal("SIGKILL");
    await exit;
  }

  readLog = (): Promise<string> => readFile(this.#logFile, "utf8");

  get #logFile(): string {
    return join(this.#folder, "daemon.log");
  }

  get #isRunning(): boolean {
    return this.#child?.exitCode === null && this.#child.signalCode === null;
  }
}
