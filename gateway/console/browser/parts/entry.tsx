import type { ComponentChildren } from "preact";
import type { Outputs } from "../core.js";
import { FormLink, ListingLink, UserLink } from "./links.js";

export type Entry = Outputs["audit"]["trail"][number];

/** Who made a change. */
export function Who({ entry: { actor, actorId, actorName, userId } }: { entry: Entry }) {
  if (actor === "operator" && !actorName) return "Operator";
  if (actor === "system") return "System";
  return (
    <>
      {actorName ?? (userId ? <UserLink id={userId} /> : `Deleted ${actorId?.slice(0, 8)}`)}
      <small class="quiet">{actor === "key" ? "by an API key" : actor}</small>
    </>
  );
}

const words = (text: string) => text.replaceAll(/[._]/g, " ").replace(/^./, (first) => first.toUpperCase());

/** Field names of the core as words: `checkInDate` is `check in date`. */
const fieldNames = (fields: unknown) =>
  [fields]
    .flat()
    .filter((field) => field !== "listingId")
    .map((field) => `${field}`.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`))
    .join(", ");

/** What a change did. */
export function What({ entry: { action, details } }: { entry: Entry }): ComponentChildren {
  const { from, to, fields, listingId, movedFrom, userId, role, reason } = details;
  const changed = Array.isArray(fields) && fields.length > 0 ? fieldNames(fields) : undefined;
  switch (action) {
    case "form.created":
      return <>Form created on {listingId ? <ListingLink id={`${listingId}`} /> : "a listing"}</>;
    case "form.updated":
      if (!movedFrom) return changed ? `Stay changed: ${changed}` : "Stay saved without a change";
      return (
        <>
          <strong>Moved</strong> from <ListingLink id={`${movedFrom}`} /> to <ListingLink id={`${listingId}`} />
          {changed && <small>Also changed: {changed}</small>}
        </>
      );
    case "form.status_set":
      return (
        <>
          Status {`${from}`} → <strong>{`${to}`}</strong>{" "}
          {details.correction === true && <span class="quiet">out of order</span>}
        </>
      );
    case "form.party_set":
      return `Changed: ${changed ?? "vehicles or pets"}`;
    case "form.email_erased":
      return `Guest’s address erased${reason ? `: ${reason}` : ""}`;
    case "notification.requested":
      return "Asked to send the invitation again";
    case "notification.retried":
      return "Asked to retry the email";
    case "notification.expired":
      return "Invitation expired: the stay was over, or the form was past SENT";
    case "member.set":
    case "member.removed":
      return (
        <>
          {words(action)}: <UserLink id={`${userId}`} /> {role ? `${role}` : ""}
        </>
      );
    default:
      return changed ? `${words(action)}: ${changed}` : words(action);
  }
}

/** What a change was made to. */
export function Subject({ entry: { action, subjectId } }: { entry: Entry }) {
  const [kind = ""] = action.split(".");
  if (kind === "listing" || kind === "member") return <ListingLink id={subjectId} />;
  if (kind === "user") return <UserLink id={subjectId} />;
  if (kind === "webhook") return <a href={`/console/webhooks/${subjectId}`}>{subjectId.slice(0, 8)}</a>;
  if (kind === "key") return <a href={`/console/find?q=${subjectId}`}>{subjectId.slice(0, 8)}</a>;
  return <FormLink id={subjectId} />;
}
