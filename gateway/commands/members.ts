import { type Command, Option } from "commander";
import { type PageOptions, paged, withPages } from "./pages.js";
import { record, table } from "./print.js";
import { dataCommand, operate } from "./run.js";
import { spoken } from "./values.js";

const ROLES = { owner: "OWNER", writer: "WRITER", reader: "READER" } as const;

interface MemberOptions {
  listing: string;
  user: string;
}

/** `members set`, `members list`, `members remove`. */
export function addMembers(program: Command): void {
  const members = program.command("members").description("who may do what on a listing");
  member(members, "set")
    .description("give a user a role on a listing, in place of any they have")
    .addOption(
      new Option(
        "--role <role>",
        "owner and writer put the listing in the scope of the user's keys, reader does not (required)",
      )
        .choices(Object.keys(ROLES))
        .makeOptionMandatory(),
    )
    .action(({ listing, user, role }: MemberOptions & { role: keyof typeof ROLES }, command: Command) =>
      operate(command, {
        call: async (core, findUser) => {
          const userId = await findUser("--user", user);
          return shown(await core.members.set({ listingId: listing, userId, role: ROLES[role] }));
        },
        text: record,
      }),
    );
  member(members, "remove")
    .description("take a user's role on a listing away; their keys lose it within a second")
    .action(({ listing, user }: MemberOptions, command: Command) =>
      operate(command, {
        call: async (core, findUser) => {
          const userId = await findUser("--user", user);
          return shown(await core.members.remove({ listingId: listing, userId }));
        },
        text: record,
        missing: "This user has no role on this listing.",
      }),
    );
  addList(members);
}

function addList(members: Command): void {
  withPages(dataCommand(members, "list"))
    .description("list who has which role on a listing, or which roles a user has")
    .option("--listing <id>", "the listing")
    .addOption(new Option("--user <user>", "the user: an id or e-mail address").conflicts("listing"))
    .action(({ listing, user, limit, after }: PageOptions & Partial<MemberOptions>, command: Command) =>
      operate(command, {
        call: async (core, findUser) => {
          const userId = user && (await findUser("--user", user));
          const page = await core.members.list({ listingId: listing, userId, limit, cursor: after });
          return { ...page, items: page.items.map(shown) };
        },
        text: (page) =>
          paged(
            table(
              page.items,
              user ? ["listingId", "listingTitle", "role"] : ["userId", "userEmail", "role"],
              user ? "This user has no role on any listing." : "This listing has no members.",
            ),
            page,
          ),
      }),
    );
}

const member = (parent: Command, name: string) =>
  dataCommand(parent, name)
    .requiredOption("--listing <id>", "id of the listing (required)")
    .requiredOption("--user <user>", "id or e-mail address of the user (required)");

const shown = <Membership extends { role: string }>(membership: Membership) => ({
  ...membership,
  role: spoken(membership.role),
});
