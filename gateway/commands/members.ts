import { type Command, Option } from "commander";
import { formatPage, type PageOptions, withPages } from "./pages.js";
import { formatRecord, formatTable } from "./print.js";
import { addDataCommand, callCore } from "./run.js";
import { toKebabCase } from "./values.js";

const ROLES = { owner: "OWNER", writer: "WRITER", reader: "READER" } as const;

interface MemberOptions {
  listing: string;
  user: string;
}

export function addMembers(program: Command): void {
  const members = program.command("members").description("users' roles on listings");
  addMemberCommand(members, "set")
    .description("set a user's role on a listing, replacing any previous role")
    .addOption(
      new Option(
        "--role <role>",
        "owner and writer put the listing in scope of the user's keys, reader does not (required)",
      )
        .choices(Object.keys(ROLES))
        .makeOptionMandatory(),
    )
    .action(({ listing, user, role }: MemberOptions & { role: keyof typeof ROLES }, command: Command) =>
      callCore(command, {
        call: async (core, findUser) => {
          const userId = await findUser("--user", user);
          return withReadableRole(await core.members.set({ listingId: listing, userId, role: ROLES[role] }));
        },
        text: formatRecord,
      }),
    );
  addMemberCommand(members, "remove")
    .description("remove a user's role on a listing; the listing leaves their keys' scope within a second")
    .action(({ listing, user }: MemberOptions, command: Command) =>
      callCore(command, {
        call: async (core, findUser) => {
          const userId = await findUser("--user", user);
          return withReadableRole(await core.members.remove({ listingId: listing, userId }));
        },
        text: formatRecord,
        notFound: "This user has no role on this listing.",
      }),
    );
  addList(members);
}

function addList(members: Command): void {
  withPages(addDataCommand(members, "list"))
    .description("list the members of a listing, or the roles of a user")
    .option("--listing <id>", "id of the listing")
    .addOption(new Option("--user <user>", "id or email address of the user").conflicts("listing"))
    .action(({ listing, user, limit, after }: PageOptions & Partial<MemberOptions>, command: Command) =>
      callCore(command, {
        call: async (core, findUser) => {
          const userId = user && (await findUser("--user", user));
          const page = await core.members.list({ listingId: listing, userId, limit, cursor: after });
          return { ...page, items: page.items.map(withReadableRole) };
        },
        text: (page) =>
          formatPage(
            formatTable(
              page.items,
              user ? ["listingId", "listingTitle", "role"] : ["userId", "userEmail", "role"],
              user ? "This user has no role on any listing." : "This listing has no members.",
            ),
            page,
          ),
      }),
    );
}

const addMemberCommand = (parent: Command, name: string) =>
  addDataCommand(parent, name)
    .requiredOption("--listing <id>", "id of the listing (required)")
    .requiredOption("--user <user>", "id or email address of the user (required)");

const withReadableRole = <Membership extends { role: string }>(membership: Membership) => ({
  ...membership,
  role: toKebabCase(membership.role),
});
