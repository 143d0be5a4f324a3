import { type Command, InvalidArgumentError, Option } from "commander";
import { addDataCommand, addListCommand, required, searchOption, USER_REFERENCE } from "../cli/data-command.js";
import { formatRecord, formatTable } from "../cli/print.js";

const NO_USER = "There is no user with this id, external id or email address.";

const GIVE_OWNERS = `
These listings have no owner now. Give each one with
guest-forms members set --listing LISTING --user USER --role owner`;

interface UpdateOptions {
  user: string;
  email?: string;
  name?: string;
}

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
  addDataCommand(users, "update <user>", {
    description: `change a user's address or name, by ${USER_REFERENCE}`,
    options: [
      new Option("--email <address>", "email address, unique ignoring case"),
      new Option("--name <text>", 'name, at most 200 characters; "" for none'),
    ],
    help: "Example:\n  guest-forms users update host@example.com --email ada@example.com",
    check({ email, name }: UpdateOptions) {
      if (email === undefined && name === undefined) throw new InvalidArgumentError("Give --email, --name or both.");
    },
    call: async (core, { user, email, name }: UpdateOptions) =>
      core.users.update({ id: (await core.users.find({ user })).id, email, name: name === "" ? null : name }),
    optionNames: { user: "USER" },
    notFound: NO_USER,
  });
  addDataCommand(users, "erase <user>", {
    description: "erase a user's personal data, revoke the keys and remove the memberships",
    help: `
USER is the ${USER_REFERENCE}. Removes the address, the name, the external id and the labels of the keys. The user's id,
listings and forms stay, and those without another owner are printed. The erasure is audited. If the command fails, run
it again, by the id if the address is already removed: \`users show\` prints the id.
After a restore of the database, erase the users again who were erased since the backup: \`people reapply\` is about guests.

Example:
  guest-forms users erase host@example.com`,
    call: async (core, given: { user: string }) => core.people.eraseUser({ id: (await core.users.find(given)).id }),
    text: ({ listingsWithoutOwner: listings, ...erased }) =>
      [formatRecord(erased), ...(listings.length > 0 ? [GIVE_OWNERS, ...listings] : [])].join("\n"),
    optionNames: { user: "USER" },
    notFound: NO_USER,
  });
  addListCommand(users, "list", {
    description: "list users, newest first",
    options: [searchOption("address, name or external id")],
    call: (core, page: { search?: string }) => core.users.list(page),
    table: (items) => formatTable(items, ["id", "externalId", "email", "name", "createdAt"], "There are no users."),
  });
  addDataCommand(users, "show <user>", {
    description: `show a user, by ${USER_REFERENCE}`,
    help: "Example:\n  guest-forms users show host@example.com",
    call: (core, given: { user: string }) => core.users.find(given),
    optionNames: { user: "USER" },
    notFound: NO_USER,
  }).alias("find");
}
