import { useLocation } from "preact-iso/router";
import { ALL_STATES } from "../../../../server/constants.js";
import { core, type Inputs, type Outputs } from "../core.js";
import { Action, Instant } from "../parts/action.js";
import { Badge } from "../parts/badge.js";
import { FormLink, ListingLink } from "../parts/links.js";
import { type Columns, List } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { Tabs } from "../parts/tabs.js";
import { Ago, Time } from "../parts/time.js";
import { useRead } from "../queries.js";
import { StayTime } from "./forms.js";

type Email = Outputs["notifications"]["list"]["items"][number];

const About = ({ formId, endpointId }: Email) =>
  formId ? (
    <>
      Invitation <FormLink id={formId} />
    </>
  ) : (
    <a href={`/console/webhooks/${endpointId}`}>Disabled endpoint {endpointId?.slice(0, 8)}</a>
  );

const ABOUT: Columns<Email> = {
  Email: About,
  Listing: ({ listingId }) => listingId && <ListingLink id={listingId} />,
  "Check-in": ({ checkInDate, listingId }) => listingId && <StayTime at={checkInDate} listingId={listingId} />,
};

const SENT_COLUMNS: Columns<Email> = {
  ...ABOUT,
  Attempts: ({ attempts }) => attempts,
  Sent: ({ sentAt }) => <Time at={sentAt} />,
};

const UNSENT_COLUMNS: Columns<Email> = {
  ...ABOUT,
  State: ({ state }) => <Badge of={state} />,
  Why: ({ lastError }) => lastError,
  Attempts: ({ attempts }) => attempts,
  "Next attempt": ({ runAt }) => <Ago at={runAt} />,
  Actions: (email) =>
    email.state !== "running" && (
      <Instant
        label="Retry"
        of={`the email about ${(email.formId ?? email.endpointId)?.slice(0, 8)}`}
        class="small"
        send={() => core.notifications.retry.mutate({ id: email.id })}
        done="The email will be sent again: see “waiting”."
      />
    ),
};

export function EmailsPage() {
  const { query } = useLocation();
  const state = query.state as Inputs["notifications"]["list"]["state"];
  const counts = useRead(["email counts"], () => core.notifications.count.query(), { everySeconds: 5 }).data;
  const unsent = counts && Object.values(counts).reduce((sum, count) => sum + count, 0);
  return (
    <Page title="Emails" actions={counts && counts.failed > 0 && <RetryFailed count={counts.failed} />}>
      <Tabs
        label="State of the emails"
        name="state"
        of={[
          ["", "Not sent", unsent],
          ...ALL_STATES.map((one) => [one, one, one === "sent" ? undefined : counts?.[one]] as const),
        ]}
      />
      <List
        caption={state === "sent" ? "Emails, newest first" : "Emails, oldest first"}
        listKey={["emails", state]}
        read={(page) => core.notifications.list.query({ ...page, ...(state && { state }) })}
        columns={state === "sent" ? SENT_COLUMNS : UNSENT_COLUMNS}
        keyOf={({ id }) => id}
        empty={state ? "No email has this state." : "No email waits or has failed."}
        everySeconds={5}
      />
    </Page>
  );
}

const RetryFailed = ({ count }: { count: number }) => (
  <Action
    label="Retry all failed"
    title={`Retry ${count.toLocaleString()} failed emails`}
    submit="Retry"
    send={() => core.notifications.retryFailed.mutate()}
    done={({ retried }) => `Emails that will be sent again: ${retried.toLocaleString()}.`}
    note="Those of stays that are over, and of forms past SENT, are not sent."
  />
);
