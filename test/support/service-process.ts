import { type ProcessResult, type RunningProcess, spawnCli } from "./processes.js";

/** Starts `guest-forms` of some version with these arguments. */
export type Spawn = (args: string[], options: { env: Record<string, string> }) => RunningProcess;

const STOP_TIMEOUT_MS = 30_000;

/** A gateway or a worker that can be stopped and started again, and its exits that `stop` did not cause. */
export class ServiceProcess {
  readonly name: string;
  readonly unexpectedExits: string[] = [];
  /** Of a gateway. */
  url = "";
  readonly #env: Record<string, string>;
  readonly #isWorker: boolean;
  #current: RunningProcess | undefined;

  constructor(name: string, role: "gateway" | "worker", env: Record<string, string>) {
    this.name = name;
    this.#isWorker = role === "worker";
    this.#env = env;
  }

  /** What it has logged since its last start. */
  get log(): string {
    return this.#current?.stderr ?? "";
  }

  get pid(): number | undefined {
    return this.#current?.pid;
  }

  /** Resolves when it is ready. */
  async start(spawn: Spawn = spawnCli): Promise<void> {
    const process = spawn(this.#isWorker ? ["worker"] : ["serve", "--no-worker"], { env: this.#env });
    this.#current = process;
    void process.done.then(({ code, signal, stderr }) => {
      if (this.#current === process)
        this.unexpectedExits.push(`${this.name} exited (${signal ?? code}): ${stderr.slice(-2_000)}`);
    });
    const ready = this.#isWorker ? /^Sending / : /^Listening on ([^;]+);/;
    [, this.url = ""] = await process.waitForLine(ready, 120_000);
  }

  /** Sends SIGTERM, and SIGKILL if it does not exit in time. */
  async stop(): Promise<ProcessResult | undefined> {
    const process = this.#release();
    await process?.stopOrKill(STOP_TIMEOUT_MS);
    return process?.done;
  }

  async kill(): Promise<void> {
    await this.#release()?.stop("SIGKILL");
  }

  #release(): RunningProcess | undefined {
    const process = this.#current;
    this.#current = undefined;
    return process;
  }
}
