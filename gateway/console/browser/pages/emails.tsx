import { useLocation } from "preact-iso/router";
import { EMAIL_STATES } from "../../../../server/constants.js";
import { shortId } from "../../short-id.js";
import { core } from "../core.js";
import { Badge, EndpointLink, FormLink, ListingLink, Time } from "../parts/cells.js";
import { CallButton, FormButton } from "../parts/dialog.js";
import type { Field } from "../parts/form.js";
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
  Why: ({ state, lastError, messageId }) => (state === "sent" ? messageId : lastError),
  Attempts: ({ attempts }) => attempts,
  "Sent or due": ({ sentAt, runAt }) => <Time at={sentAt ?? runAt} />,
  Actions: ({ id, formId, endpointId, state }) => {
    const about = `the email about ${shortId(formId ?? endpointId ?? "")}`;
    return (
      <span class="hstack gap-1">
        {["retrying", "failed"].includes(state) && (
          <CallButton
            label="Retry"
            about={about}
            class="btn-sm"
            send={() => core.emails.retry.mutate({ id })}
            done="The email will be sent again: see “waiting”."
          />
        )}
        {["failed", "bounced"].includes(state) && (
          <CallButton
            label="Dismiss"
            about={about}
            class="btn-sm"
            send={() => core.emails.dismiss.mutate({ id })}
            done="The email is dismissed: nothing warns about it anymore."
          />
        )}
      </span>
    );
  },
};

/** Those that need somebody come first. */
const FIRST = ["failed", "bounced"];
const STATES = [...FIRST, ...EMAIL_STATES.filter((state) => !FIRST.includes(state))];

const BOUNCE: Field[] = [
  { name: "email", label: "Message-ID or guest’s address", hint: "From the message that came back.", required: true },
  { name: "reason", label: "Reason", hint: "Such as 550 5.1.1 user unknown. Addresses in it are masked." },
];

export function EmailsPage() {
  const state = (useLocation().query.state ?? "failed") as Email["state"];
  const counts = useRead(["email counts"], () => core.emails.count.query(), { everySeconds: 5 }).data;
  const { failed = 0, bounced = 0 } = counts ?? {};
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
  const dismissAll = (
    <FormButton
      label="Dismiss all …"
      title={`Dismiss all ${(failed + bounced).toLocaleString()} that failed or bounced`}
      submit="Dismiss them"
      send={() => core.emails.dismissAll.mutate()}
      done={({ dismissed }) => `Emails that were dismissed: ${dismissed.toLocaleString()}.`}
    >
      <p>Nothing is sent, and nothing warns about them anymore. Their guests may have no link to their form.</p>
    </FormButton>
  );
  const markBounced = (
    <FormButton
      label="Record a bounce …"
      title="Record an email that came back"
      submit="Record it"
      fields={BOUNCE}
      send={(values) =>
        core.emails.markBounced.mutate({
          email: `${values.email}`,
          ...(values.reason && { reason: `${values.reason}` }),
        })
      }
      done={({ emails }) => `Emails that are marked as bounced: ${emails.length}.`}
    />
  );
  const actions = (
    <>
      {markBounced}
      {failed > 0 && retryAll}
      {failed + bounced > 0 && dismissAll}
    </>
  );
  return (
    <Page title="Emails" actions={actions}>
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
