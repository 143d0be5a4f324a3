import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { afterFile } from "./after-file.js";
import { acceptsConnections } from "./network.js";

/** A third-party server (Redis, HAProxy, PgBouncer) on its own port, killed at the end of the test file. */
export class ExternalServer {
  readonly port: number;
  readonly #command: string;
  readonly #args: string[];
  #child: ChildProcess | undefined;

  constructor(command: string, args: string[], port: number) {
    this.#command = command;
    this.#args = args;
    this.port = port;
    afterFile(() => this.kill());
  }

  /** Resolves when it accepts connections. */
  async start(): Promise<void> {
    const child = spawn(this.#command, this.#args, { stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk) => {
        output += chunk;
      });
    for (let tries = 0; !(await acceptsConnections(this.port)); tries++) {
      if (child.exitCode !== null || tries === 200) throw new Error(`${this.#command} did not start:\n${output}`);
      await sleep(25);
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  /** Kills it without a graceful shutdown, like a crash. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
  }
}

/** A Redis without persistence, not started yet. */
export const createRedis = (binary: string, port: number) =>
  new ExternalServer(binary, ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], port);
