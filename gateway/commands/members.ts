import type { Caller } from "../../server/caller.js";
import { MAX_LIMIT } from "../../server/constants.js";
import type { Member } from "../../server/memberships/schema.js";
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
    async consequences({ members }, { listingId, userId, role }) {
      const isLast = role !== "OWNER" && isLastOwner(await readMembers(members, listingId), userId);
      return { text: isLast ? describeLast(listingId) : "The user gets the role.", isDangerous: isLast };
    },
    call: async ({ members }, input) => withReadableRole(await members.set(input)),
  }),
  remove: command({
    description: "remove a user's role on a listing; the listing leaves their keys' scope within a second",
    input: MEMBERSHIP,
    async consequences({ members }, { listingId, userId }) {
      const all = await readMembers(members, listingId);
      if (!all.some((member) => member.userId === userId)) {
        const { notFound } = await import("../../server/errors.js");
        throw notFound();
      }
      const isLast = isLastOwner(all, userId);
      return { text: isLast ? describeLast(listingId) : "The user loses the role.", isDangerous: isLast };
    },
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

const describeLast = (listingId: string) =>
  `The user is the last owner of listing ${listingId}: without a writer, no key sees its forms.`;

async function readMembers(members: Caller["members"], listingId: string): Promise<Member[]> {
  const all: Member[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await members.list({ listingId, cursor, limit: MAX_LIMIT });
    all.push(...page.items);
    cursor = page.nextCursor;
  }
  return all;
}

function isLastOwner(all: Member[], userId: string): boolean {
  const owners = all.filter(({ role }) => role === "OWNER");
  return owners.length === 1 && owners[0]?.userId === userId;
}

const withReadableRole = <Membership extends { role: string }>(membership: Membership) => ({
  ...membership,
  role: toKebabCase(membership.role),
});
