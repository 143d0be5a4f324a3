import { availableParallelism } from "node:os";
import { type Command, InvalidArgumentError } from "commander";
import { notes } from "./help.js";
import { withJson } from "./print.js";
import type { ServeOptions } from "./serve-action.js";
import { settingsNotes } from "./settings-help.js";
import { parsePort } from "./values.js";

/** Adds `--port` and `--host`, the options of commands that listen. */
export const withAddress = (command: Command): Command =>
  command
    .option("--port <number>", "port to listen on, 0 for any free port (default: PORT, or 3000)", parsePort)
    .option("--host <name>", "address to listen on (default: HOST, or 127.0.0.1)");

export function addServe(program: Command): void {
  withAddress(withJson(program.command("serve")))
    .description("run the service: the gateway and the notification worker")
    .option("--no-worker", "run only the gateway; `guest-forms worker` sends notifications")
    .option(
      "--workers <number>",
      "number of processes that share the port, or auto for one per CPU core; crashed processes are replaced (default: one process, not replaced)",
      parseWorkers,
    )
    .addHelpText(
      "after",
      notes(`
Requires DATABASE_URL and a database prepared by \`guest-forms migrate\`. SIGTERM and SIGINT stop it gracefully: it keeps
serving for DRAIN_DELAY_SECONDS, then stops accepting requests and lets running ones finish (at most DRAIN_SECONDS).
Without --workers, SIGHUP does the same; with --workers, it replaces the processes one by one without rejecting
requests. Each process has its own connection pool and, without REDIS_URL, its own rate limits.

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

function parseWorkers(text: string): number {
  if (text === "auto") return availableParallelism();
  const number = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > MAX_WORKERS) {
    throw new InvalidArgumentError(`It must be auto or an integer from 1 to ${MAX_WORKERS}.`);
  }
  return number;
}
