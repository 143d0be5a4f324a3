import type { Command } from "commander";
import { notes } from "./help.js";
import { type PageOptions, paged, withPages } from "./pages.js";
import { record, table } from "./print.js";
import { dataCommand, operate } from "./run.js";

/** `users create`, `users list`, `users find`. */
export function addUsers(program: Command): void {
  const users = program.command("users").description("people: hosts, and the holders of API keys");
  addCreate(users);
  addList(users);
  addFind(users);
}

function addCreate(users: Command): void {
  dataCommand(users, "create")
    .description("make a user")
    .requiredOption("--email <address>", "e-mail address, one user each in whatever case (required)")
    .option("--name <text>", "name, at most 200 characters (default: none)")
    .addHelpText(
      "after",
      notes('\nExample:\n  guest-forms users create --email host@example.com --name "Ada Host"'),
    )
    .action((options: { email: string; name?: string }, command: Command) =>
      operate(command, {
        call: (core) => core.users.create({ email: options.email, name: options.name }),
        text: record,
      }),
    );
}

function addList(users: Command): void {
  withPages(dataCommand(users, "list"))
    .description("list users, newest first")
    .action(({ limit, after }: PageOptions, command: Command) =>
      operate(command, {
        call: (core) => core.users.list({ limit, cursor: after }),
        text: (page) =>
          paged(table(page.items, ["id", "email", "name", "createdAt"], "There are no users."), page),
      }),
    );
}

function addFind(users: Command): void {
  dataCommand(users, "find <user>")
    .description("show the user with this e-mail address or id")
    .addHelpText("after", notes("Example:\n  guest-forms users find host@example.com"))
    .action((user: string, _options: object, command: Command) =>
      operate(command, {
        call: (core) =>
          user.includes("@") ? core.users.find({ email: user }) : core.users.get({ id: user }),
        text: record,
        options: { email: "USER" },
        missing: "There is no user with this e-mail address or id.",
      }),
    );
}
