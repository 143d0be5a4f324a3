import { core, type Inputs } from "../core.js";
import { Copy } from "../parts/copy.js";
import { FormButton } from "../parts/dialog.js";
import { changesOf } from "../parts/form.js";
import { Keys } from "../parts/keys.js";
import { Members } from "../parts/members.js";
import { Facts, Page, Section } from "../parts/page.js";
import { Loaded } from "../parts/states.js";
import { Time } from "../parts/time.js";
import { AuditTrail } from "../parts/trail.js";
import { useRead } from "../queries.js";
import { type User, userFields } from "./users.js";

export function UserPage({ id }: { id: string }) {
  const user = useRead(["user", id], () => core.users.get.query({ id }));
  return (
    <Page title={user.data?.email ?? "User"}>
      <Loaded query={user}>
        {(loaded) => (
          <div class="vstack gap-4">
            <Section title="Facts" actions={<EditUser user={loaded} />}>
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
            <Keys userId={id} />
            <Members userId={id} />
            <AuditTrail id={id} />
          </div>
        )}
      </Loaded>
    </Page>
  );
}

function EditUser({ user }: { user: User }) {
  const fields = userFields(user);
  return (
    <FormButton
      label="Edit"
      title={`Edit ${user.email}`}
      submit="Save"
      fields={fields}
      send={(values) =>
        core.users.update.mutate({ ...changesOf(values, fields), id: user.id } as Inputs["users"]["update"])
      }
      done={({ email }) => `${email} was saved.`}
    />
  );
}
