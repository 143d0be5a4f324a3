import { useLocation } from "preact-iso/router";
import { DELIVERY_STATES } from "../../../../server/constants.js";
import { core, type Inputs } from "../core.js";
import { Action, Instant } from "../parts/action.js";
import { AuditTrail } from "../parts/audit.js";
import { Copy } from "../parts/copy.js";
import { DELIVERY_COLUMNS } from "../parts/deliveries.js";
import { type Endpoint, EndpointOwner, EndpointState, endpointFields, eventsOf } from "../parts/endpoints.js";
import { changesOf, type Field } from "../parts/form.js";
import { ListingLink } from "../parts/links.js";
import { List } from "../parts/list.js";
import { Facts, Page, Section } from "../parts/page.js";
import { useSecret } from "../parts/secret.js";
import { Loaded } from "../parts/states.js";
import { Tabs } from "../parts/tabs.js";
import { formatTime, Time } from "../parts/time.js";
import { useRead } from "../queries.js";

export function EndpointPage({ id }: { id: string }) {
  const endpoint = useRead(["webhook", id], () => core.webhooks.get.query({ id }), { everySeconds: 10 });
  return (
    <Page
      title={endpoint.data ? `Endpoint ${hostOf(endpoint.data)}` : "Endpoint"}
      actions={endpoint.data && <Actions endpoint={endpoint.data} />}
    >
      <Loaded query={endpoint}>
        {(endpoint) => (
          <div class="stack">
            <section class="card" aria-label="Facts">
              <EndpointFacts endpoint={endpoint} />
            </section>
            <Deliveries endpointId={id} />
            <AuditTrail id={id} />
          </div>
        )}
      </Loaded>
    </Page>
  );
}

const hostOf = ({ url }: Endpoint) => new URL(url).host;

const EndpointFacts = ({ endpoint }: { endpoint: Endpoint }) => (
  <Facts
    of={[
      ["URL", <Copy text={endpoint.url} />],
      ["State", <EndpointState {...endpoint} />],
      ["Owner", <EndpointOwner {...endpoint} />],
      ["Events", eventsOf(endpoint)],
      [
        "Listings",
        endpoint.listingIds.length > 0
          ? endpoint.listingIds.map((one) => (
              <div key={one}>
                <ListingLink id={one} />
              </div>
            ))
          : "All that the owner may see",
      ],
      ["Created", <Time at={endpoint.createdAt} />],
      ["Id", <Copy text={endpoint.id} />],
    ]}
  />
);

function Actions({ endpoint }: { endpoint: Endpoint }) {
  const { id, url, enabled } = endpoint;
  const { route } = useLocation();
  const { show, dialog } = useSecret();
  const fields = endpointFields(endpoint);
  return (
    <>
      {enabled && (
        <Instant
          label="Send a test"
          send={() => core.webhooks.test.mutate({ id })}
          done="A test is being sent: see Deliveries."
        />
      )}
      <Action
        label="Edit"
        title="Edit the endpoint"
        submit="Save"
        fields={fields}
        send={(values) =>
          core.webhooks.update.mutate({ ...changesOf(values, fields), id } as Inputs["webhooks"]["update"])
        }
        done="The endpoint was saved."
      />
      <Action
        label="Rotate secret"
        send={() => core.webhooks.rotateSecret.mutate({ id })}
        onDone={({ secret, previousSecretUntil }) =>
          show({
            title: "New secret",
            secret,
            note: `Deliveries are also signed with the old one until ${formatTime(previousSecretUntil)}.`,
          })
        }
        note="Deliveries are signed with the new secret, and with the old one for another 24 hours."
      />
      {enabled ? (
        <Action
          label="Disable"
          title="Disable the endpoint"
          send={() => core.webhooks.disable.mutate({ id })}
          done="The endpoint is disabled."
          note="Deliveries that are due while it is disabled fail, and events from then on are not sent."
        />
      ) : (
        <Instant
          label="Enable"
          class="primary"
          send={() => core.webhooks.enable.mutate({ id })}
          done="The endpoint is enabled."
        />
      )}
      <Action
        label="Delete"
        title="Delete the endpoint"
        class="danger"
        isDangerous
        send={() => core.webhooks.delete.mutate({ id })}
        done={() => `${url} was deleted.`}
        onDone={() => route("/console/webhooks")}
        note={
          <>
            <code>{url}</code> and all its deliveries are deleted. This cannot be undone.
          </>
        }
      />
      {dialog}
    </>
  );
}

const STATES = [["", "All"], ...DELIVERY_STATES.map((state) => [state, state.replaceAll("_", " ")] as const)] as const;

const RANGE: Field[] = [
  { name: "since", label: "Events from", type: "datetime-local", required: true, hint: "In your time zone." },
  { name: "until", label: "Events before", type: "datetime-local", hint: "Empty: until now." },
];

const tell = ({ redelivered }: { redelivered: number }) =>
  `Deliveries that are sent again: ${redelivered.toLocaleString()}.`;

function Deliveries({ endpointId }: { endpointId: string }) {
  const { query } = useLocation();
  const state = query.state as Inputs["webhooks"]["deliveries"]["state"];
  const { redeliver } = core.webhooks;
  return (
    <Section
      title="Deliveries"
      actions={
        <>
          <Action
            label="Redeliver failed"
            title="Redeliver all that failed"
            submit="Redeliver"
            send={() => redeliver.mutate({ endpointId, failed: true })}
            done={tell}
            note={
              <>
                Failed and retrying deliveries are sent again now, with the same <code>webhook-id</code>.
              </>
            }
          />
          <Action
            label="Redeliver a time range"
            submit="Redeliver"
            fields={RANGE}
            send={({ since, until }) =>
              redeliver.mutate({ endpointId, since: `${since}`, ...(until && { until: `${until}` }) })
            }
            done={tell}
            note={
              <>
                Deliveries that were sent are sent again too, with the same <code>webhook-id</code>.
              </>
            }
          />
        </>
      }
    >
      <Tabs label="State of the deliveries" name="state" of={STATES} />
      <List
        caption="Deliveries, newest first"
        listKey={["deliveries", endpointId, state]}
        read={(page) => core.webhooks.deliveries.query({ endpointId, ...page, ...(state && { state }) })}
        columns={DELIVERY_COLUMNS}
        keyOf={({ id }) => id}
        empty={state ? "No delivery has this state." : "Nothing was delivered yet."}
        everySeconds={5}
      />
    </Section>
  );
}
