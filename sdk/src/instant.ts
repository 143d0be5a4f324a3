import { GuestFormsError } from "./errors.js";

const LOCAL_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/;
const DAY_MS = 86_400_000;

/**
 * The instant of a local time in a time zone, as an ISO 8601 string in UTC. Use it if your bookings have days and hours: send it as
 * `checkInDate` or `checkOutDate`.
 *
 * Where clocks go back, a time that occurs twice is the first of both. Where they go forward, a time does not exist.
 *
 * @param timezone An IANA time zone, such as a listing's `timezone`.
 * @param localTime `YYYY-MM-DDTHH:mm`, with or without seconds.
 * @throws {GuestFormsError} If the time is malformed or does not exist there, or the time zone is unknown.
 * @example
 * ```ts
 * const checkInDate = instantIn("Europe/Berlin", "2027-07-01T15:00"); // 2027-07-01T13:00:00.000Z
 * ```
 */
export function instantIn(timezone: string, localTime: string): string {
  // The local time, read as if it were in UTC.
  const wanted = LOCAL_TIME.test(localTime) ? Date.parse(`${localTime}Z`) : Number.NaN;
  // Date.parse turns 31 February into 3 March.
  if (!(wanted >= 0) || !new Date(wanted).toISOString().startsWith(localTime)) {
    throw new GuestFormsError(`${localTime} is not a date and time since 1970, such as 2027-07-01T15:00`);
  }
  // Clocks change at most once within these two days. The offset before comes first.
  for (const near of [wanted - DAY_MS, wanted + DAY_MS]) {
    const instant = wanted - offsetAt(near, timezone);
    if (instant + offsetAt(instant, timezone) === wanted) return new Date(instant).toISOString();
  }
  throw new GuestFormsError(`${localTime} does not exist in ${timezone}, because clocks go forward`);
}

/** By how many milliseconds local time is ahead of UTC. */
function offsetAt(instant: number, timeZone: string): number {
  const numeric = "numeric";
  const date = { year: numeric, month: numeric, day: numeric } as const;
  const time = { hour: numeric, minute: numeric, second: numeric, hourCycle: "h23" } as const;
  try {
    const format = new Intl.DateTimeFormat("en", { ...date, ...time, timeZone });
    const parts = Object.fromEntries(format.formatToParts(instant).map(({ type, value }) => [type, Number(value)]));
    const { year = 0, month = 0, day, hour, minute, second } = parts;
    return Date.UTC(year, month - 1, day, hour, minute, second) - instant;
  } catch (cause) {
    throw new GuestFormsError(`${timeZone} is not an IANA time zone`, { cause });
  }
}
