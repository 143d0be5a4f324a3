import { Fragment } from "preact";
import { useEffect, useReducer } from "preact/hooks";
import { shortId } from "../../short-id.js";
import { core } from "../core.js";
import { useListing, useRead } from "../queries.js";

/** How a status or state looks. Its text says the same, so that the color is not needed. */
const COLORS = {
  info: ["SENT", "COMPLETED", "waiting", "running"],
  success: ["ACCEPTED", "VALIDATED", "sent", "ok", "enabled", "active"],
  warning: ["retrying", "expired", "warning", "failing"],
  danger: ["REJECTED", "INVALIDATED", "failed", "bounced", "disabled", "revoked"],
};

const colorOf = (text: string) => Object.entries(COLORS).find(([, texts]) => texts.includes(text))?.[0] ?? "secondary";

/** A status, a state or a role. */
export const Badge = ({ text }: { text: string }) => (
  <span class={`badge bg-${colorOf(text)}-subtle text-${colorOf(text)}-emphasis`}>{text.replaceAll("_", " ")}</span>
);

const idLink =
  (path: string) =>
  ({ id }: { id: string }) => <a href={path + id}>{shortId(id)}</a>;

// Links have the name of what they lead to, or the first characters of its id until that is known.

export const FormLink = idLink("/console/forms/");
export const TraceLink = idLink("/console/trace?id=");
export const EndpointLink = idLink("/console/webhooks?endpoint=");

export const ListingLink = ({ id }: { id: string }) => (
  <a href={`/console/listings/${id}`}>{useListing(id).data?.title ?? shortId(id)}</a>
);

export function UserLink({ id }: { id: string }) {
  const { data } = useRead(["user", id], () => core.users.get.query({ id }));
  return <a href={`/console/users/${id}`}>{data ? (data.name ?? data.email) : shortId(id)}</a>;
}

const DATE_TIME = { dateStyle: "medium", timeStyle: "short" } as const;
export const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const formatTime = (at: string, timeZone = HERE) =>
  new Intl.DateTimeFormat(undefined, { ...DATE_TIME, timeZone }).format(new Date(at));

/** The zone, or UTC if this browser does not know it. */
function knownZone(timeZone: string | undefined) {
  try {
    Intl.DateTimeFormat(undefined, { timeZone });
    return timeZone;
  } catch {
    return "UTC";
  }
}

/** The days of a stay in the listing's time zone, such as 1–8 July 2027. */
export function formatStay(from: string, to: string, timeZone: string): string {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "long", timeZone: knownZone(timeZone) });
  return format.formatRange(new Date(from), new Date(to));
}

const UNITS = { day: 86_400, hour: 3_600, minute: 60, second: 1 };
const RELATIVE = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

function formatAge(at: string): string {
  const seconds = Math.round((Date.parse(at) - Date.now()) / 1000);
  const [unit, length] = Object.entries(UNITS).find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
  return RELATIVE.format(Math.round(seconds / length), unit as keyof typeof UNITS);
}

/** A part of the name of a zone, after which a line may end. */
const breakable = (part: string, index: number) => (
  <Fragment key={part}>
    {index > 0 && "/"}
    {index > 0 && <wbr />}
    {part}
  </Fragment>
);

const TICK_MS = 20_000;

interface TimeProps {
  at: string | null | undefined;
  /** Shown without a time. */
  none?: string;
  /** The listing in whose time zone it is. */
  listingId?: string;
}

/** A time in the reader's time zone, with how long ago; or in a listing's, with its zone and the reader's time if that differs. */
export function Time({ at, none = "–", listingId }: TimeProps) {
  const zone = knownZone(useListing(listingId).data?.timezone);
  const [, tick] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const timer = setInterval(tick, TICK_MS, undefined);
    return () => clearInterval(timer);
  }, []);
  if (!at) return none;
  const here = formatTime(at);
  const there = formatTime(at, zone);
  const isElsewhere = there !== here;
  const note = listingId ? isElsewhere && here : formatAge(at);
  return (
    <time dateTime={at}>
      {there} {isElsewhere && zone?.split("/").map(breakable)}{" "}
      {note && <small class="text-body-secondary">({note})</small>}
    </time>
  );
}
