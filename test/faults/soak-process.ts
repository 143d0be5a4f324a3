import { type RunningProcess, spawnCli } from "../support/processes.js";

/** A `guest-forms` process that can be stopped and started again. */
export class SoakProcess {
  readonly name: string;
  /** Exits that `stop` did not cause. */
  readonly unexpectedExits: string[] = [];
  readonly #args: string[];
  readonly #env: Record<string, string>;
  readonly #readyLine: RegExp;
  #process: RunningProcess | undefined;

  constructor(name: string, args: string[], readyLine: RegExp, env: Record<string, string>) {
    this.name = name;
    this.#args = args;
    this.#readyLine = readyLine;
    this.#env = env;
  }

  /** Resolves when it is ready. */
  async start(): Promise<void> {
    const process = spawnCli(this.#args, { env: this.#env });
    this.#process = process;
    void process.done.then(({ code, signal, stderr }) => {
      if (this.#process === process)
        this.unexpectedExits.push(`${this.name} exited (${signal ?? code}): ${stderr.slice(-2_000)}`);
    });
    await process.waitForLine(this.#readyLine, 60_000);
  }

  async stop(signal: NodeJS.Signals): Promise<void> {
    const process = this.#process;
    this.#process = undefined;
    if (signal === "SIGKILL") await process?.stop(signal);
    else await process?.stopOrKill(30_000);
  }
}
