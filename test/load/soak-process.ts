import { type RunningProcess, spawnCli } from "../support/processes.js";

/** A `guest-forms` process that can be stopped and started again, and its exits that `stop` did not cause. */
export type SoakProcess = ReturnType<typeof createProcess>;

export function createProcess(name: string, args: string[], readyLine: RegExp, env: Record<string, string>) {
  const unexpectedExits: string[] = [];
  let current: RunningProcess | undefined;
  return {
    name,
    unexpectedExits,
    /** Resolves when it is ready. */
    async start(): Promise<void> {
      const process = spawnCli(args, { env });
      current = process;
      void process.done.then(({ code, signal, stderr }) => {
        if (current === process) unexpectedExits.push(`${name} exited (${signal ?? code}): ${stderr.slice(-2_000)}`);
      });
      await process.waitForLine(readyLine, 60_000);
    },
    async stop(signal: NodeJS.Signals): Promise<void> {
      const process = current;
      current = undefined;
      if (signal === "SIGKILL") await process?.stop(signal);
      else await process?.stopOrKill(30_000);
    },
  };
}
