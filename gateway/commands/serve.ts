import { availableParallelism } from "node:os";
import { type Command, InvalidArgumentError } from "commander";
import { notes } from "./help.js";
import { withJson } from "./print.js";
import type { ServeOptions } from "./serve-action.js";
import { settingsNotes } from "./settings-help.js";
import { port } from "./values.js";

/** `--port` and `--host`, of the commands that listen. */
export const withAddress = (command: Command): Command =>
  command
    .option("--port <number>", "port to listen on, 0 for any free one (default: PORT, or 3000)", port)
    .option("--host <name>", "address to listen on (default: HOST, or 127.0.0.1)");

/** `serve`. */
export function addServe(program: Command): void {
  withAddress(withJson(program.command("serve")))
    .description("run the service: the gateway and the notification worker")
    .option("--no-worker", "run the gateway alone, where `guest-forms worker` runs elsewhere")
    .option(
      "--workers <number>",
      "processes that share the port, or auto for one a processor core; those that crash are replaced (default: this one)",
      workers,
    )
    .addHelpText(
      "after",
      notes(`
Wants DATABASE_URL, and a database that \`guest-forms migrate\` has prepared. SIGTERM and SIGINT stop it, and SIGHUP unless --workers is given: it serves on
for DRAIN_DELAY_SECONDS, then takes no new requests and lets the running ones finish (DRAIN_SECONDS at most).
With --workers, SIGHUP replaces the processes one by one without refusing a request; pools of connections, and limits
where REDIS_URL is unset, are then of each process.

Example:
  DATABASE_URL=postgres://user:password@localhost/guest_forms guest-forms serve --port 8080`),
    )
    .addHelpText("after", settingsNotes)
    .action(async (options: ServeOptions, command: Command) => {
      const { serve } = await import("./serve-action.js");
      await serve(options, command);
    });
}

const MAX_WORKERS = 256;

function workers(text: string): number {
  if (text === "auto") return availableParallelism();
  const number = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > MAX_WORKERS) {
    throw new InvalidArgumentError(`It must be auto or an integer from 1 to ${MAX_WORKERS}.`);
  }
  return number;
}
