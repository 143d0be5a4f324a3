import { core, type Inputs } from "../core.js";
import { Copy } from "../parts/copy.js";
import { EditButton } from "../parts/dialog.js";
import { Keys } from "../parts/keys.js";
import { Loaded } from "../parts/loaded.js";
import { Members } from "../parts/members.js";
import { Facts, Page, Section } from "../parts/page.js";
import { Time } from "../parts/time.js";
import { AuditTrail } from "../parts/trail.js";
import { useRead } from "../queries.js";
import { userFields } from "./users.js";

export function UserPage({ id }: { id: string }) {
  const user = useRead(["user", id], () => core.users.get.query({ id }));
  return (
    <Page title={user.data?.email ?? "User"}>
      <Loaded query={user}>
        {(loaded) => (
          <div class="vstack gap-4">
            <Section
              title="Facts"
              actions={
                <EditButton
                  name={loaded.email}
                  fields={userFields(loaded)}
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
          </div>
        )}
      </Loaded>
    </Page>
  );
}
