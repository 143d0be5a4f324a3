import { useLocation } from "preact-iso/router";
import { core, type Inputs, type Outputs } from "../core.js";
import { FormButton } from "../parts/dialog.js";
import { Filters } from "../parts/filters.js";
import type { Field } from "../parts/form.js";
import { type Columns, List } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { Time } from "../parts/time.js";

export type User = Outputs["users"]["get"];

const COLUMNS: Columns<User> = {
  "Email address": ({ id, email }) => <a href={`/console/users/${id}`}>{email}</a>,
  Name: ({ name }) => name,
  "External id": ({ externalId }) => externalId,
  Created: ({ createdAt }) => <Time at={createdAt} />,
};

export const userFields = (user?: User): Field[] => [
  { name: "email", label: "Email address", type: "email", required: true, value: user?.email },
  { name: "name", label: "Name", value: user?.name },
];

export function UsersPage() {
  const { query, route } = useLocation();
  const search = query.search;
  const create = (
    <FormButton
      label="New user"
      class="btn-primary"
      submit="Create"
      fields={userFields()}
      send={(values) => core.users.create.mutate(values as Inputs["users"]["create"])}
      done={({ email }) => `${email} was created.`}
      onDone={({ id }) => route(`/console/users/${id}`)}
    />
  );
  return (
    <Page title="Users" actions={create}>
      <Filters filters={[{ name: "search", label: "Email address, name or external id", type: "search" }]} />
      <List
        caption="Users, newest first"
        listKey={["users", search]}
        read={(page) => core.users.list.query({ ...page, ...(search && { search }) })}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        empty="No user matches."
      />
    </Page>
  );
}
