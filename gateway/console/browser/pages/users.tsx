import { useLocation } from "preact-iso/router";
import { core, type Inputs, type Outputs } from "../core.js";
import { Time } from "../parts/cells.js";
import { Copy } from "../parts/copy.js";
import { EditButton, FormButton } from "../parts/dialog.js";
import type { Field } from "../parts/form.js";
import { Keys } from "../parts/keys.js";
import { type Columns, ListPage } from "../parts/list.js";
import { Members } from "../parts/members.js";
import { Facts, Loaded, Page, Section } from "../parts/page.js";
import { AuditTrail } from "../parts/trail.js";
import { useRead } from "../queries.js";

type User = Outputs["users"]["get"];

const COLUMNS: Columns<User> = {
  "Email address": ({ id, email }) => <a href={`/console/users/${id}`}>{email}</a>,
  Name: ({ name }) => name,
  "External id": ({ externalId }) => externalId,
  Created: ({ createdAt }) => <Time at={createdAt} />,
};

const fieldsOf = (user?: User): Field[] => [
  { name: "email", label: "Email address", type: "email", required: true, value: user?.email },
  { name: "name", label: "Name", value: user?.name },
];

export function UsersPage() {
  const { route } = useLocation();
  const create = (
    <FormButton
      label="New user"
      class="btn-primary"
      submit="Create"
      fields={fieldsOf()}
      send={(values) => core.users.create.mutate(values as Inputs["users"]["create"])}
      done={({ email }) => `${email} was created.`}
      onDone={({ id }) => route(`/console/users/${id}`)}
    />
  );
  return (
    <ListPage
      title="Users"
      actions={create}
      filters={[{ name: "search", label: "Email address, name or external id", type: "search" }]}
      caption="Users, newest first"
      read={(given, page) => core.users.list.query({ ...given, ...page })}
      columns={COLUMNS}
      empty="No user matches."
    />
  );
}

export function UserPage({ id }: { id: string }) {
  const user = useRead(["user", id], () => core.users.get.query({ id }));
  return (
    <Page title={user.data?.email ?? "User"}>
      <Loaded query={user}>
        {(loaded) => (
          <>
            <Section
              title="Facts"
              actions={
                <EditButton
                  name={loaded.email}
                  fields={fieldsOf(loaded)}
                  send={(changes) => core.users.update.mutate({ ...changes, id } as Inputs["users"]["update"])}
                />
              }
            >
              <Facts
                facts={{
                  Name: loaded.name,
                  "External id": loaded.externalId,
                  Created: <Time at={loaded.createdAt} />,
                  Forms: <a href={`/console/forms?userId=${id}`}>Forms of this user’s listings</a>,
                  Id: <Copy text={id} />,
                }}
              />
            </Section>
            <Keys user={loaded} />
            <Members userId={id} />
            <AuditTrail id={id} />
          </>
        )}
      </Loaded>
    </Page>
  );
}
