import { expect, test } from "vitest";
import { GuestFormsError, instantIn } from "../../sdk/src/index.js";

test.each([
  ["2027-07-01T15:00", "Europe/Berlin", "2027-07-01T13:00:00.000Z"],
  ["2027-01-01T15:00:30", "Europe/Berlin", "2027-01-01T14:00:30.000Z"],
  ["2027-07-01T00:00", "Pacific/Auckland", "2027-06-30T12:00:00.000Z"],
  ["2027-07-01T15:00", "Asia/Kathmandu", "2027-07-01T09:15:00.000Z"],
  ["2028-02-29T23:59:59", "UTC", "2028-02-29T23:59:59.000Z"],
  // Clocks go forward from 2:00 to 3:00, and back from 3:00 to 2:00: the first 2:30 is the one of summer.
  ["2027-03-28T03:00", "Europe/Berlin", "2027-03-28T01:00:00.000Z"],
  ["2027-10-31T02:30", "Europe/Berlin", "2027-10-31T00:30:00.000Z"],
  ["2027-10-31T03:00", "Europe/Berlin", "2027-10-31T02:00:00.000Z"],
  ["2027-11-07T01:30", "America/New_York", "2027-11-07T05:30:00.000Z"],
])("%s in %s is %s", (localTime, timezone, instant) => {
  expect(instantIn(timezone, localTime)).toBe(instant);
});

test.each(["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Auckland", "America/Santiago"])(
  "every hour of a year converts back, in %s",
  (timeZone) => {
    // Swedish dates are ISO dates.
    const format = new Intl.DateTimeFormat("sv", { timeZone, dateStyle: "short", timeStyle: "medium" });
    const localTimeAt = (instant: number) => format.format(instant).replace(" ", "T");
    let repeated = 0;
    for (let instant = Date.UTC(2027, 0); instant < Date.UTC(2028, 0); instant += 3_600_000) {
      const found = Date.parse(instantIn(timeZone, localTimeAt(instant)));
      if (found === instant) continue;
      // The second of two equal local times.
      expect(localTimeAt(found)).toBe(localTimeAt(instant));
      expect(instant - found).toBeGreaterThan(0);
      repeated++;
    }
    expect(repeated).toBeLessThanOrEqual(1);
  },
);

const MALFORMED = "is not a date and time since 1970, such as 2027-07-01T15:00";

test.each([
  ["2027-03-28T02:30", "Europe/Berlin", "does not exist in Europe/Berlin, because clocks go forward"],
  ["2011-12-30T12:00", "Pacific/Apia", "does not exist in Pacific/Apia, because clocks go forward"],
  ...[
    "2027-02-31T15:00",
    "1969-12-31T15:00",
    "2027-07-01",
    "2027-07-01T15:00Z",
    "2027-07-01T24:00",
    "1.7.2027 15:00",
    "",
  ].map((text) => [text, "UTC", MALFORMED]),
])("%s in %s is rejected: %s", (localTime, timezone, message) => {
  expect(() => instantIn(timezone, localTime)).toThrow(new GuestFormsError(`${localTime} ${message}`));
});

test.each(["Mars/Base", ""])("the time zone %j is rejected", (timezone) => {
  expect(() => instantIn(timezone, "2027-07-01T15:00")).toThrow(`${timezone} is not an IANA time zone`);
});
