import { ROLES } from "../../../../server/constants.js";
import { core, type Inputs, type Outputs } from "../core.js";
import { Badge } from "./cells.js";
import { FormButton } from "./dialog.js";
import { type Field, findListingId, findUserId } from "./form.js";
import { type Columns, List } from "./list.js";
import { Section } from "./page.js";

type Member = Outputs["members"]["list"]["items"][number];
type Role = Inputs["members"]["set"]["role"];

const ROLE_TEXTS: Record<Role, string> = {
  OWNER: "Owner: has access to its forms",
  WRITER: "Writer: has access to its forms",
  READER: "Reader: has no access to its forms",
};

const roleField = (value: Role): Field => ({
  name: "role",
  label: "Role",
  options: ROLES.map((role) => [role, ROLE_TEXTS[role]]),
  required: true,
  value,
});

/** The members of a listing, or the memberships of a user. */
export function Members(of: { listingId: string } | { userId: string }) {
  const isOfListing = "listingId" in of;
  const nameOf = ({ userEmail, listingTitle }: Member) => (isOfListing ? userEmail : listingTitle);
  const columns: Columns<Member> = {
    [isOfListing ? "User" : "Listing"]: (member) => (
      <a href={isOfListing ? `/console/users/${member.userId}` : `/console/listings/${member.listingId}`}>
        {nameOf(member)}
      </a>
    ),
    Role: ({ role }) => <Badge text={role} />,
    Actions: ({ userId, listingId, userEmail, listingTitle, role }) => (
      <FormButton
        label="Remove"
        about={`${userEmail} from ${listingTitle}`}
        class="btn-sm"
        isDangerous
        send={() => core.members.remove.mutate({ userId, listingId })}
        done={`${userEmail} was removed from ${listingTitle}.`}
      >
        <p>
          {userEmail} loses access to {listingTitle} and its forms at once, also with API keys.
          {role === "OWNER" && " If there is no other owner, the listing has none then."}
        </p>
      </FormButton>
    ),
  };
  const other: Field = isOfListing
    ? { name: "user", label: "User", hint: "Email address, external id or id.", required: true }
    : { name: "listing", label: "Listing", hint: "External id or id.", required: true };
  const add = (
    <FormButton
      label={isOfListing ? "Set a member’s role" : "Set the role on a listing"}
      submit="Set the role"
      fields={[other, roleField("WRITER")]}
      send={async (values) => {
        const userId = isOfListing ? await findUserId(values, "user") : of.userId;
        const listingId = isOfListing ? of.listingId : await findListingId(values, "listing");
        return core.members.set.mutate({ userId, listingId, role: values.role as Role });
      }}
      done={({ role }) => `The role is ${role}.`}
    />
  );
  return (
    <Section title={isOfListing ? "Members" : "Listings"} actions={add}>
      <List
        caption={isOfListing ? "Members" : "Listings of the user"}
        listKey={["members", of]}
        read={(page) => core.members.list.query({ ...of, ...page })}
        cursorName="members"
        columns={columns}
        keyOf={({ userId, listingId }) => `${userId} ${listingId}`}
        empty="None."
      />
    </Section>
  );
}
