import type { ComponentChildren } from "preact";
import { shortId } from "../../short-id.js";
import { core, type Outputs } from "../core.js";
import { ListingLink, Time, TraceLink, UserLink } from "./cells.js";
import { type Columns, List } from "./list.js";
import { Section } from "./page.js";

export type Entry = Outputs["audit"]["trail"][number];

/** Who made a change. */
export function Who({ actor, actorId, actorName, userId }: Entry): ComponentChildren {
  const name = actorName ?? (userId && <UserLink id={userId} />) ?? (actorId && `Deleted ${shortId(actorId)}`);
  if (!name) return words(actor);
  return (
    <>
      {name} <small class="text-body-secondary">{actor === "key" ? "by an API key" : actor}</small>
    </>
  );
}

const words = (text: string) => text.replaceAll(/[._]/g, " ").replace(/^./, (first) => first.toUpperCase());

/** Field names of the core as words: `checkInDate` is `check in date`. */
const fieldNames = (fields: unknown) =>
  [fields ?? []]
    .flat()
    .filter((field) => field !== "listingId")
    .map((field) => `${field}`.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`))
    .join(", ");

const TEXTS: Partial<Record<string, string>> = {
  "form.updated": "Stay changed",
  "form.party_set": "Changed",
  "form.email_erased": "Guest’s address erased",
  "email.requested": "Asked to send the invitation again",
  "email.retried": "Asked to retry the email",
  "email.dismissed": "Dismissed the email, which had failed or bounced",
  "email.bounced": "Recorded that the email came back",
  "person.looked_up": "Found by the guest’s address",
  "email.expired": "Invitation expired: the stay was over, the form was past SENT, or another invitation followed",
};

/** What a change did. */
export function What({ action, keyPrefix, details }: Entry): ComponentChildren {
  const { from, to, fields, listingId, movedFrom, userId, role, reason } = details;
  if (action === "form.status_set") return `Status ${from} → ${to}${details.correction ? ", out of order" : ""}`;
  if (action === "form.cancelled") return `Cancelled, was ${from}`;
  const changed = fieldNames(fields) || reason;
  const text = `${TEXTS[action] ?? words(action)}${keyPrefix ? ` ${keyPrefix}…` : ""}${changed ? `: ${changed}` : ""}`;
  if (action.startsWith("member.")) {
    return (
      <>
        {text}: <UserLink id={`${userId}`} /> {role && `${role}`}
      </>
    );
  }
  if (!movedFrom) return text;
  return (
    <>
      <strong>Moved</strong> from <ListingLink id={`${movedFrom}`} /> to <ListingLink id={`${listingId}`} />
      {changed && <div>Also changed: {`${changed}`}</div>}
    </>
  );
}

/** What a change was made to: Find knows its page. */
export const Subject = ({ action, subjectId }: Entry) => (
  <a href={`/console/find?q=${subjectId}`}>
    {action.split(".")[0]} {shortId(subjectId)}
  </a>
);

const COLUMNS: Columns<Entry> = {
  When: ({ at }) => <Time at={at} />,
  What,
  Who,
  Request: ({ correlationId }) => <TraceLink id={correlationId} />,
};

/** The audit trail of a listing, user or endpoint. */
export const AuditTrail = ({ id }: { id: string }) => (
  <Section title="Audit trail">
    <List
      caption="Changes, newest first"
      listKey={["trail", id]}
      read={async ({ limit, cursor }) => {
        const items = await core.audit.trail.query({ subjectId: id, limit, ...(cursor && { before: cursor }) });
        return { items, nextCursor: items.length === limit ? (items.at(-1)?.id ?? null) : null };
      }}
      cursorName="before"
      columns={COLUMNS}
      keyOf={(entry) => entry.id}
      empty="Nothing was changed."
    />
  </Section>
);
