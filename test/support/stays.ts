import type { FormBody } from "../../server/forms/schema.js";

/** Returns a valid body for create or update, with a stay that is not over for decades. Equal arguments give an equal body, so a second create is a replay. */
export const fixedStay = (listingId: string, overrides: Partial<FormBody> = {}): FormBody => ({
  listingId,
  checkInDate: "2055-07-01T13:00:00.000Z",
  checkOutDate: "2055-07-08T09:00:00.000Z",
  numberOfGuests: 2,
  ...overrides,
});

let day = 0;

/** Returns a valid body with dates that no other call in this test file returns, so it is never a replay. */
export function uniqueStay(listingId: string, fields: Record<string, unknown> = {}) {
  day += 1;
  return {
    listingId,
    checkInDate: new Date(Date.UTC(2031, 0, day, 15)).toISOString(),
    checkOutDate: new Date(Date.UTC(2031, 0, day + 2, 10)).toISOString(),
    numberOfGuests: 2,
    ...fields,
  };
}
