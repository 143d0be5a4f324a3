import { command, noun } from "../cli/command.js";
import { argument, option, required, searchOption, USER_REFERENCE } from "../cli/fields.js";
import { list } from "../cli/list.js";
import { formatRecord } from "../cli/print.js";
import { orNone, TEXT, USER } from "../cli/readers.js";

const NO_USER = "There is no user with this id, external id or email address.";
const USER_ID = { ...argument("<user>", USER), notFound: NO_USER };

const GIVE_OWNERS = `
These listings have no owner now. Give each one with
guest-forms members set --listing LISTING --user USER --role owner`;

export const users = noun("hosts and other API key holders", {
  create: command({
    description: "create a user",
    input: {
      email: required("--email <address>", "email address, unique ignoring case", TEXT),
      name: option("--name <text>", "name, at most 200 characters (default: none)", TEXT),
    },
    examples: ['guest-forms users create --email host@example.com --name "Ada Host"'],
    call: ({ users }, input) => users.create(input),
  }),
  update: command({
    description: `change a user's address or name, by ${USER_REFERENCE}`,
    input: {
      id: USER_ID,
      email: option("--email <address>", "email address, unique ignoring case", TEXT),
      name: option("--name <text>", 'name, at most 200 characters; "" for none', orNone(TEXT, [""])),
    },
    examples: ["guest-forms users update host@example.com --email ada@example.com"],
    noOption: "Give --email, --name or both.",
    call: ({ users }, input) => users.update(input),
  }),
  erase: command({
    description: "erase a user's personal data, revoke the keys and remove the memberships",
    input: { id: USER_ID },
    help: `
USER is the ${USER_REFERENCE}. Removes the address, the name, the external id and the labels of the keys. The user's id,
listings and forms stay, and those without another owner are printed. The erasure is audited. If the command fails, run
it again, by the id if the address is already removed: \`users show\` prints the id.
After a restore of the database, erase the users again who were erased since the backup: \`people reapply\` is about guests.`,
    examples: ["guest-forms users erase host@example.com"],
    async consequences({ people }, { id }) {
      const { revokedKeys, removedMemberships, listingsWithoutOwner } = await people.eraseUser({ id, dryRun: true });
      const orphaned =
        listingsWithoutOwner.length > 0 ? ` These have no other owner: ${listingsWithoutOwner.join(", ")}.` : "";
      return {
        text: `User ${id} is erased for good: valid keys that are revoked: ${revokedKeys}, listings that the user leaves: ${removedMemberships}.${orphaned}`,
        isDangerous: true,
      };
    },
    call: ({ people }, input) => people.eraseUser(input),
    text: ({ listingsWithoutOwner: listings, ...erased }) =>
      [formatRecord(erased), ...(listings.length > 0 ? [GIVE_OWNERS, ...listings] : [])].join("\n"),
  }),
  list: list({
    description: "list users, newest first",
    input: { search: searchOption("address, name or external id") },
    call: ({ users }, input) => users.list(input),
    columns: ["id", "externalId", "email", "name", "createdAt"],
    none: "There are no users.",
  }),
  show: command({
    description: `show a user, by ${USER_REFERENCE}`,
    alias: "find",
    input: { user: { ...argument("<user>", TEXT), notFound: NO_USER } },
    examples: ["guest-forms users show host@example.com"],
    call: ({ users }, input) => users.find(input),
  }),
});
