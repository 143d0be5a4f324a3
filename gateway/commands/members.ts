import { type Command, Option } from "commander";
import { record } from "./print.js";
import { dataCommand, operate } from "./run.js";
import { spoken } from "./values.js";

const ROLES = { owner: "OWNER", writer: "WRITER", reader: "READER" } as const;

interface MemberOptions {
  listing: string;
  user: string;
}

/** `members set`, `members remove`. */
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
        call: async (core) =>
          shown(await core.members.set({ listingId: listing, userId: user, role: ROLES[role] })),
        text: record,
      }),
    );
  member(members, "remove")
    .description("take a user's role on a listing away; their keys lose it within a second")
    .action(({ listing, user }: MemberOptions, command: Command) =>
      operate(command, {
        call: async (core) => shown(await core.members.remove({ listingId: listing, userId: user })),
        text: record,
        missing: "This user has no role on this listing.",
      }),
    );
}

const member = (parent: Command, name: string) =>
  dataCommand(parent, name)
    .requiredOption("--listing <id>", "id of the listing (required)")
    .requiredOption("--user <id>", "id of the user (required)");

const shown = <Membership extends { role: string }>(membership: Membership) => ({
  ...membership,
  role: spoken(membership.role),
});
