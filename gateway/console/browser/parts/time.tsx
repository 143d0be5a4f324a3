import { useEffect, useState } from "preact/hooks";

const DATE_TIME = { dateStyle: "medium", timeStyle: "short" } as const;
export const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const formatTime = (at: string, timeZone?: string) =>
  new Intl.DateTimeFormat(undefined, { ...DATE_TIME, ...(timeZone && { timeZone }) }).format(new Date(at));

const UNITS = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
] as const;
const RELATIVE = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

function ago(at: string): string {
  const seconds = (Date.parse(at) - Date.now()) / 1000;
  for (const [unit, length] of UNITS) {
    if (Math.abs(seconds) >= length) return RELATIVE.format(Math.round(seconds / length), unit);
  }
  return RELATIVE.format(Math.round(seconds), "second");
}

interface TimeProps {
  at: string | null;
  /** Shown without a time. */
  none?: string;
}

/** A time in the reader's time zone, and how long ago. */
export const Time = ({ at, none = "–" }: TimeProps) =>
  at === null ? (
    <span class="quiet">{none}</span>
  ) : (
    <time dateTime={at} title={`${at} (${ago(at)})`}>
      {formatTime(at)}
    </time>
  );

const TICK_MS = 20_000;

/** How long ago, or in how long, with the time as a title. */
export function Ago({ at, none = "–" }: TimeProps) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  if (at === null) return <span class="quiet">{none}</span>;
  return (
    <time dateTime={at} title={formatTime(at)}>
      {ago(at)}
    </time>
  );
}

/** A time in a listing's time zone, and in the reader's if it differs. */
export function ZonedTime({ at, zone, none = "–" }: TimeProps & { zone: string | undefined }) {
  if (at === null) return <span class="quiet">{none}</span>;
  const here = formatTime(at);
  const there = zone ? formatTime(at, zone) : here;
  return (
    <time dateTime={at}>
      {there} {zone && <span class="quiet">{zone}</span>}
      {there !== here && (
        <small class="quiet">
          {here} {HERE}
        </small>
      )}
    </time>
  );
}
