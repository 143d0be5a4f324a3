import type { Command } from "commander";
import { withJson } from "./print.js";
import { type ServeOptions, withAddress } from "./serve.js";
import { settingsHelp } from "./settings-help.js";

export type DevOptions = Omit<ServeOptions, "worker">;

/** `dev`. */
export function addDev(program: Command): void {
  withAddress(withJson(program.command("dev")))
    .description("run the service on an embedded Postgres with demo data: nothing else is needed")
    .addHelpText(
      "after",
      `
Keeps everything in .data/ under the current folder: the database (unless DATABASE_URL is set), and the two demo keys
in .data/demo.json. The next start finds them again. While it runs, the other commands started in this folder use its
database. Without PORT or --port it takes a free port where 3000 is taken. Ctrl-C stops it; a second one at once.

Example:
  guest-forms dev --port 4000
${settingsHelp()}`,
    )
    .action(async (options: DevOptions, command: Command) => {
      const { dev } = await import("./actions/dev.js");
      await dev(options, command);
    });
}
