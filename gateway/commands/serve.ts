import type { Command } from "commander";
import { notes } from "../cli/help.js";
import { withJson } from "../cli/print.js";
import { settingsNotes } from "../cli/settings-help.js";
import { parsePort } from "../cli/values.js";
import type { ServeOptions } from "../run/serve.js";

/** Adds `--port` and `--host`, the options of commands that listen. */
export const withAddress = (command: Command): Command =>
  command
    .option("--port <number>", "port to listen on, 0 for any free port (default: PORT, or 3000)", parsePort)
    .option("--host <name>", "address to listen on (default: HOST, or 127.0.0.1)");

export function addServe(program: Command): void {
  withAddress(withJson(program.command("serve")))
    .description("run the service: the gateway and the notification worker")
    .option("--no-worker", "run only the gateway; `guest-forms worker` sends notifications")
    .addHelpText(
      "after",
      notes(`
Requires DATABASE_URL, APP_SECRETS and a database prepared by \`guest-forms migrate\`. SIGTERM, SIGINT and SIGHUP stop it
gracefully: it keeps serving for DRAIN_DELAY_SECONDS, then stops accepting requests and lets running ones finish (at most
DRAIN_SECONDS). To use more than one CPU core, run several processes behind a load balancer. Each has its own connection
pool and, without REDIS_URL, its own rate limits.

Example:
  DATABASE_URL=postgres://user:password@localhost/guest_forms guest-forms serve --port 8080`),
    )
    .addHelpText("after", settingsNotes)
    .action(async (options: ServeOptions, command: Command) => {
      const { serve } = await import("../run/serve.js");
      await serve(options, command);
    });
}
