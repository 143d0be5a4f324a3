import { type Command, Option } from "commander";
import { addDataCommand, addListCommand, required, USER_REFERENCE } from "../cli/data-command.js";
import { formatTable } from "../cli/print.js";
import { toKebabCase } from "../cli/values.js";

const ROLES = { owner: "OWNER", writer: "WRITER", reader: "READER" } as const;

interface MemberOptions {
  listing: string;
  user: string;
}

const memberOptions = () => [
  required("--listing <listing>", "id or external id of the listing"),
  required("--user <user>", `${USER_REFERENCE} of the user`),
];

export function addMembers(program: Command): void {
  const members = program.command("members").description("users' roles on listings");
  addDataCommand(members, "set", {
    description: "set a user's role on a listing, replacing any previous role",
    options: [
      ...memberOptions(),
      required(
        "--role <role>",
        "owner and writer put the listing in scope of the user's keys, reader does not",
      ).choices(Object.keys(ROLES)),
    ],
    call: async (core, { listing, user, role }: MemberOptions & { role: keyof typeof ROLES }, find) => {
      const userId = await find.findUser("--user", user);
      const listingId = await find.findListing("--listing", listing);
      return withReadableRole(await core.members.set({ listingId, userId, role: ROLES[role] }));
    },
  });
  addDataCommand(members, "remove", {
    description: "remove a user's role on a listing; the listing leaves their keys' scope within a second",
    options: memberOptions(),
    call: async (core, { listing, user }: MemberOptions, find) => {
      const userId = await find.findUser("--user", user);
      const listingId = await find.findListing("--listing", listing);
      return withReadableRole(await core.members.remove({ listingId, userId }));
    },
    notFound: "This user has no role on this listing.",
  });
  addListCommand(members, "list", {
    description: "list the members of a listing, or the roles of a user",
    options: [
      new Option("--listing <listing>", "id or external id of the listing"),
      new Option("--user <user>", `${USER_REFERENCE} of the user`).conflicts("listing"),
    ],
    call: async (core, { listing, user, ...page }: Partial<MemberOptions>, find) => {
      const userId = await find.findUser("--user", user);
      const listingId = await find.findListing("--listing", listing);
      const { items, nextCursor } = await core.members.list({ ...page, listingId, userId });
      return { items: items.map(withReadableRole), nextCursor };
    },
    table: (items, { user }) =>
      user
        ? formatTable(items, ["listingId", "listingTitle", "role"], "This user has no role on any listing.")
        : formatTable(items, ["userId", "userEmail", "role"], "This listing has no members."),
  });
}

const withReadableRole = <Membership extends { role: string }>(membership: Membership) => ({
  ...membership,
  role: toKebabCase(membership.role),
});
