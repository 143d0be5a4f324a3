import { type Command, Option } from "commander";
import { addDataCommand, addListCommand, required } from "../cli/data-command.js";
import { formatTable } from "../cli/print.js";

export function addUsers(program: Command): void {
  const users = program.command("users").description("hosts and other API key holders");
  addDataCommand(users, "create", {
    description: "create a user",
    options: [
      required("--email <address>", "email address, unique ignoring case"),
      new Option("--name <text>", "name, at most 200 characters (default: none)"),
    ],
    help: 'Example:\n  guest-forms users create --email host@example.com --name "Ada Host"',
    call: (core, user: { email: string; name?: string }) => core.users.create(user),
  });
  addListCommand(users, "list", {
    description: "list users, newest first",
    call: (core, page) => core.users.list(page),
    table: (items) => formatTable(items, ["id", "email", "name", "createdAt"], "There are no users."),
  });
  addDataCommand(users, "find <user>", {
    description: "show the user with this email address or id",
    help: "Example:\n  guest-forms users find host@example.com",
    call: (core, { user }: { user: string }) =>
      user.includes("@") ? core.users.find({ email: user }) : core.users.get({ id: user }),
    optionNames: { email: "USER" },
    notFound: "There is no user with this email address or id.",
  });
}
