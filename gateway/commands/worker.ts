import type { Command } from "commander";
import { withJson } from "./print.js";
import { settingsHelp } from "./settings-help.js";

/** `worker`. */
export function addWorker(program: Command): void {
  withJson(program.command("worker"))
    .description("run the notification worker alone, beside `serve --no-worker`")
    .addHelpText(
      "after",
      `
Wants DATABASE_URL. SIGTERM and SIGINT stop it: what is being sent is finished (DRAIN_SECONDS at most).
${settingsHelp()}`,
    )
    .action(async (_options: object, command: Command) => {
      const { work } = await import("./actions/worker.js");
      await work(command);
    });
}
