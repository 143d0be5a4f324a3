import type { Command } from "commander";
import { record } from "./print.js";
import { dataCommand, operate } from "./run.js";

/** `users create`. */
export function addUsers(program: Command): void {
  const users = program.command("users").description("people: hosts, and the holders of API keys");
  dataCommand(users, "create")
    .description("make a user")
    .requiredOption("--email <address>", "e-mail address, one user each in whatever case (required)")
    .option("--name <text>", "name, at most 200 characters (default: none)")
    .addHelpText("after", '\nExample:\n  guest-forms users create --email host@example.com --name "Ada Host"')
    .action((options: { email: string; name?: string }, command: Command) =>
      operate(command, {
        call: (core) => core.users.create({ email: options.email, name: options.name }),
        text: record,
      }),
    );
}
