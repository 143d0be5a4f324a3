import { EVENT_TYPES } from "../../../../server/constants.js";
import { core, type Inputs, type Outputs } from "../core.js";
import { Action } from "./action.js";
import { Badge } from "./badge.js";
import type { Field } from "./form.js";
import { UserLink } from "./links.js";
import { type Columns, List } from "./list.js";
import { Section } from "./page.js";
import { findUserId } from "./references.js";
import { useSecret } from "./secret.js";
import { Ago } from "./time.js";

export type Endpoint = Outputs["webhooks"]["get"];

const DISABLED_BECAUSE = {
  manual: "by hand",
  gone: "it answered 410",
  failing: "all attempts of three days have failed",
} as const;

export const EndpointState = ({ disabledAt, disabledReason, failingSince }: Endpoint) => (
  <>
    <Badge of={disabledAt ? "disabled" : failingSince ? "failing" : "enabled"} />
    {(disabledAt ?? failingSince) && (
      <small class="quiet">
        {disabledAt ? " " : " first "}
        <Ago at={disabledAt ?? failingSince} />
        {disabledReason && `: ${DISABLED_BECAUSE[disabledReason]}`}
      </small>
    )}
  </>
);

export const EndpointOwner = ({ userId }: Endpoint) => (userId ? <UserLink id={userId} /> : "Operator");

export const eventsOf = ({ events }: Endpoint) => (events.length > 0 ? events.join(", ") : "All");

const COLUMNS: Columns<Endpoint> = {
  URL: ({ id, url }) => <a href={`/console/webhooks/${id}`}>{url}</a>,
  Owner: EndpointOwner,
  Events: eventsOf,
  Listings: ({ listingIds }) => (listingIds.length > 0 ? listingIds.length : "All"),
  State: EndpointState,
};

export const endpointFields = (endpoint?: Endpoint): Field[] => [
  { name: "url", label: "URL", type: "url", required: true, value: endpoint?.url },
  {
    name: "events",
    label: "Events",
    type: "choices",
    options: EVENT_TYPES.map((event) => [event, event]),
    hint: "None chosen: all events.",
    value: endpoint?.events ?? [],
  },
  {
    name: "listingIds",
    label: "Listing ids",
    type: "ids",
    hint: "Separated by spaces. Empty: all listings that the owner may see.",
    value: endpoint?.listingIds ?? [],
  },
];

const OWNER: Field = {
  name: "userId",
  label: "Owner",
  hint: "Email address, external id or id of a user. Empty: the operator, who gets the events of all forms.",
};

/** All endpoints, or those of a user. */
export function Endpoints({ userId }: { userId?: string }) {
  const { show, dialog } = useSecret();
  const create = async (values: Parameters<typeof findUserId>[0]) => {
    const owner = userId ?? (values.userId ? await findUserId(values, "userId") : null);
    return core.webhooks.create.mutate({ ...values, userId: owner } as Inputs["webhooks"]["create"]);
  };
  const columns = { ...COLUMNS };
  if (userId) delete columns.Owner;
  return (
    <Section
      title={userId ? "Webhook endpoints" : "Endpoints"}
      actions={
        <Action
          label="New endpoint"
          submit="Create"
          class={userId ? "" : "primary"}
          fields={[...(userId ? [] : [OWNER]), ...endpointFields()]}
          send={create}
          onDone={({ secret }) =>
            show({ title: "Secret of the new endpoint", secret, note: "Deliveries are signed with it." })
          }
        />
      }
    >
      <List
        caption="Webhook endpoints, oldest first"
        listKey={["webhooks", userId]}
        read={(page) => core.webhooks.list.query({ ...page, ...(userId && { userId }) })}
        cursorName="endpoints"
        columns={columns}
        keyOf={({ id }) => id}
        empty="There are no endpoints."
        everySeconds={10}
      />
      {dialog}
    </Section>
  );
}
