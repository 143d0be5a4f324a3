import type { Command } from "commander";
import { notes } from "./help.js";
import { formatPage, type PageOptions, withPages } from "./pages.js";
import { formatRecord, formatTable } from "./print.js";
import { addDataCommand, callCore } from "./run.js";

export function addUsers(program: Command): void {
  const users = program.command("users").description("hosts and other API key holders");
  addCreate(users);
  addList(users);
  addFind(users);
}

function addCreate(users: Command): void {
  addDataCommand(users, "create")
    .description("create a user")
    .requiredOption("--email <address>", "email address, unique ignoring case (required)")
    .option("--name <text>", "name, at most 200 characters (default: none)")
    .addHelpText(
      "after",
      notes('\nExample:\n  guest-forms users create --email host@example.com --name "Ada Host"'),
    )
    .action((options: { email: string; name?: string }, command: Command) =>
      callCore(command, {
        call: (core) => core.users.create({ email: options.email, name: options.name }),
        text: formatRecord,
      }),
    );
}

function addList(users: Command): void {
  withPages(addDataCommand(users, "list"))
    .description("list users, newest first")
    .action(({ limit, after }: PageOptions, command: Command) =>
      callCore(command, {
        call: (core) => core.users.list({ limit, cursor: after }),
        text: (page) =>
          formatPage(
            formatTable(page.items, ["id", "email", "name", "createdAt"], "There are no users."),
            page,
          ),
      }),
    );
}

function addFind(users: Command): void {
  addDataCommand(users, "find <user>")
    .description("show the user with this email address or id")
    .addHelpText("after", notes("Example:\n  guest-forms users find host@example.com"))
    .action((user: string, _options: object, command: Command) =>
      callCore(command, {
        call: (core) =>
          user.includes("@") ? core.users.find({ email: user }) : core.users.get({ id: user }),
        text: formatRecord,
        options: { email: "USER" },
        notFound: "There is no user with this email address or id.",
      }),
    );
}
