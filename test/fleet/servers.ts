import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll } from "vitest";

/** A server of another project, on a port of its own; it is ended with the test file. */
export class Server {
  readonly port: number;
  readonly #command: string;
  readonly #args: string[];
  #child: ChildProcess | undefined;

  constructor(command: string, args: string[], port: number) {
    this.#command = command;
    this.#args = args;
    this.port = port;
    servers.push(this);
  }

  /** Resolves when it takes connections. */
  async start(): Promise<void> {
    const child = spawn(this.#command, this.#args, { stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    let said = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk) => {
        said += chunk;
      });
    for (let tries = 0; !(await answers(this.port)); tries++) {
      if (child.exitCode !== null || tries === 200)
        throw new Error(`${this.#command} did not start:\n${said}`);
      await sleep(25);
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  /** Ends it as a crash would. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
  }
}

const servers: Server[] = [];
afterAll(() => Promise.all(servers.map((server) => server.kill())));

/** A Redis that keeps nothing on disk. */
export const redisServer = (path: string, port: number) =>
  new Server(path, ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], port);

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}
