import { useLocation } from "preact-iso/router";
import { EMAIL_STATES } from "../../../../server/constants.js";
import { core } from "../core.js";
import { Badge, EndpointLink, FormLink, ListingLink, Time } from "../parts/cells.js";
import { CallButton, FormButton } from "../parts/dialog.js";
import { type Columns, List, StateTabs } from "../parts/list.js";
import { Page } from "../parts/page.js";
import type { Email } from "../parts/timeline.js";
import { useRead } from "../queries.js";

const COLUMNS: Columns<Email> = {
  Email: ({ formId, endpointId }) => (
    <>
      {formId ? "Invitation " : "Disabled endpoint "}
      {formId ? <FormLink id={formId} /> : endpointId && <EndpointLink id={endpointId} />}
    </>
  ),
  Listing: ({ listingId }) => listingId && <ListingLink id={listingId} />,
  "Check-in": ({ checkInDate, listingId }) => listingId && <Time at={checkInDate} listingId={listingId} />,
  State: ({ state }) => <Badge text={state} />,
  Why: ({ state, lastError }) => state !== "sent" && lastError,
  Attempts: ({ attempts }) => attempts,
  "Sent or due": ({ sentAt, runAt }) => <Time at={sentAt ?? runAt} />,
  Actions: ({ id, formId, endpointId, state }) =>
    ["retrying", "failed"].includes(state) && (
      <CallButton
        label="Retry"
        about={`the email about ${(formId ?? endpointId)?.slice(0, 8)}`}
        class="btn-sm"
        send={() => core.emails.retry.mutate({ id })}
        done="The email will be sent again: see “waiting”."
      />
    ),
};

const STATES = ["failed", ...EMAIL_STATES.filter((state) => state !== "failed")];

export function EmailsPage() {
  const state = (useLocation().query.state ?? "failed") as Email["state"];
  const counts = useRead(["email counts"], () => core.emails.count.query(), { everySeconds: 5 }).data;
  const failed = counts?.failed ?? 0;
  const retryAll = (
    <FormButton
      label="Retry all failed"
      title={`Retry all ${failed.toLocaleString()} failed`}
      submit="Retry"
      send={() => core.emails.retryFailed.mutate()}
      done={({ retried }) => `Emails that will be sent again: ${retried.toLocaleString()}.`}
    >
      <p>Emails about past stays, and about forms past SENT, are not sent.</p>
    </FormButton>
  );
  return (
    <Page title="Emails" actions={failed > 0 && retryAll}>
      <StateTabs label="State of the emails" states={STATES} counts={counts} />
      <List
        caption={`Emails, ${state === "sent" ? "newest" : "oldest"} first`}
        listKey={["emails", state]}
        read={(page) => core.emails.list.query({ ...page, state })}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        empty="None."
        everySeconds={5}
      />
    </Page>
  );
}
