import { core, type Inputs } from "../core.js";
import { Action } from "../parts/action.js";
import { AuditTrail } from "../parts/audit.js";
import { Copy } from "../parts/copy.js";
import { Endpoints } from "../parts/endpoints.js";
import { changesOf } from "../parts/form.js";
import { Keys } from "../parts/keys.js";
import { Members } from "../parts/members.js";
import { Facts, Page } from "../parts/page.js";
import { Loaded } from "../parts/states.js";
import { Time } from "../parts/time.js";
import { useRead } from "../queries.js";
import { type User, userFields } from "./users.js";

export function UserPage({ id }: { id: string }) {
  const user = useRead(["user", id], () => core.users.get.query({ id }));
  return (
    <Page title={user.data?.email ?? "User"} actions={user.data && <EditUser user={user.data} />}>
      <Loaded query={user}>
        {({ name, externalId, createdAt }) => (
          <div class="stack">
            <section class="card" aria-label="Facts">
              <Facts
                of={[
                  ["Name", name],
                  ["External id", externalId],
                  ["Created", <Time at={createdAt} />],
                  ["Forms", <a href={`/console/forms?userId=${id}`}>Forms of this user’s listings</a>],
                  ["Id", <Copy text={id} />],
                ]}
              />
            </section>
            <Keys userId={id} />
            <Members userId={id} />
            <Endpoints userId={id} />
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
    <Action
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
