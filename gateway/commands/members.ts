import { command, noun } from "../cli/command.js";
import { option, required, USER_REFERENCE } from "../cli/fields.js";
import { list } from "../cli/list.js";
import { toKebabCase } from "../cli/print.js";
import { LISTING_OPTION, named, USER_OPTION } from "../cli/readers.js";

const ROLES = { owner: "OWNER", writer: "WRITER", reader: "READER" } as const;

const LISTING = "id or external id of the listing";
const USER = `${USER_REFERENCE} of the user`;

const MEMBERSHIP = {
  listingId: required("--listing <listing>", LISTING, LISTING_OPTION),
  userId: { ...required("--user <user>", USER, USER_OPTION), isFoundFirst: true },
};

export const members = noun("users' roles on listings", {
  set: command({
    description: "set a user's role on a listing, replacing any previous role",
    input: {
      ...MEMBERSHIP,
      role: required(
        "--role <role>",
        "owner and writer put the listing in scope of the user's keys, reader does not",
        named(ROLES),
      ),
    },
    call: async ({ members }, input) => withReadableRole(await members.set(input)),
  }),
  remove: command({
    description: "remove a user's role on a listing; the listing leaves their keys' scope within a second",
    input: MEMBERSHIP,
    call: async ({ members }, input) => withReadableRole(await members.remove(input)),
    notFound: "This user has no role on this listing.",
  }),
  list: list({
    description: "list the members of a listing, or the roles of a user",
    input: {
      listingId: option("--listing <listing>", LISTING, LISTING_OPTION),
      userId: { ...option("--user <user>", USER, USER_OPTION), conflicts: "listing" },
    },
    async call({ members }, input) {
      const { items, nextCursor } = await members.list(input);
      return { items: items.map(withReadableRole), nextCursor };
    },
    columns: ({ userId }) => (userId ? ["listingId", "listingTitle", "role"] : ["userId", "userEmail", "role"]),
    none: ({ userId }) => (userId ? "This user has no role on any listing." : "This listing has no members."),
  }),
});

const withReadableRole = <Membership extends { role: string }>(membership: Membership) => ({
  ...membership,
  role: toKebabCase(membership.role),
});
