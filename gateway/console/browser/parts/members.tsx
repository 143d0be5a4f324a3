import { ROLES } from "../../../../server/constants.js";
import { core, type Inputs, type Outputs } from "../core.js";
import { Action } from "./action.js";
import { Badge } from "./badge.js";
import type { Field } from "./form.js";
import { type Columns, List } from "./list.js";
import { Section } from "./page.js";
import { findListingId, findUserId } from "./references.js";

type Member = Outputs["members"]["list"]["items"][number];
type Role = Inputs["members"]["set"]["role"];

const ROLE_TEXTS: Record<Role, string> = { OWNER: "Owner", WRITER: "Writer", READER: "Reader" };

const roleField = (value: string): Field => ({
  name: "role",
  label: "Role",
  type: "choice",
  options: ROLES.map((role) => [role, ROLE_TEXTS[role]]),
  required: true,
  value,
});

const setRole = (userId: string, listingId: string, role: unknown) =>
  core.members.set.mutate({ userId, listingId, role: role as Role });

/** The members of a listing, or the memberships of a user. */
export function Members(of: { listingId: string } | { userId: string }) {
  const ofListing = "listingId" in of;
  const nameOf = ({ userEmail, listingTitle }: Member) => (ofListing ? userEmail : listingTitle);
  const columns: Columns<Member> = {
    [ofListing ? "User" : "Listing"]: (member) => (
      <a href={ofListing ? `/console/users/${member.userId}` : `/console/listings/${member.listingId}`}>
        {nameOf(member)}
      </a>
    ),
    Role: ({ role }) => <Badge of={role} />,
    Actions: (member) => (
      <div class="actions">
        <Action
          label="Change"
          of={`the role of ${nameOf(member)}`}
          title={`Role: ${nameOf(member)}`}
          class="small"
          submit="Set role"
          fields={[roleField(member.role)]}
          send={({ role }) => setRole(member.userId, member.listingId, role)}
          done={({ role }) => `${member.userEmail} is ${role} of ${member.listingTitle}.`}
        />
        <Action
          label="Remove"
          of={nameOf(member)}
          title={`Remove ${nameOf(member)}`}
          class="small danger"
          isDangerous
          send={() => core.members.remove.mutate({ userId: member.userId, listingId: member.listingId })}
          done={() => `${member.userEmail} was removed from ${member.listingTitle}.`}
          note={`${member.userEmail} loses access to ${member.listingTitle} and its forms at once, also with API keys.${member.role === "OWNER" ? " If there is no other owner, the listing has none then." : ""}`}
        />
      </div>
    ),
  };
  const reference: Field = ofListing
    ? { name: "user", label: "User", hint: "Email address, external id or id.", required: true }
    : { name: "listing", label: "Listing", hint: "External id or id.", required: true };
  return (
    <Section
      title={ofListing ? "Members" : "Listings"}
      actions={
        <Action
          label={ofListing ? "Add member" : "Add to a listing"}
          submit="Add"
          fields={[reference, roleField("WRITER")]}
          send={async (values) =>
            setRole(
              ofListing ? await findUserId(values, "user") : of.userId,
              ofListing ? of.listingId : await findListingId(values, "listing"),
              values.role,
            )
          }
          done={({ role }) => `Added as ${role}.`}
        />
      }
    >
      <List
        caption={ofListing ? "Members" : "Listings of the user"}
        listKey={["members", of]}
        read={(page) => core.members.list.query({ ...of, ...page })}
        cursorName="members"
        columns={columns}
        keyOf={({ userId, listingId }) => `${userId} ${listingId}`}
        empty={ofListing ? "It has no members." : "This user is a member of no listing."}
      />
    </Section>
  );
}
