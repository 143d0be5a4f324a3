export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const nullOrMatches = (pattern: RegExp) => (value: unknown) =>
  value === null || (typeof value === "string" && pattern.test(value));
export const matches = (pattern: RegExp) => (value: unknown) => typeof value === "string" && pattern.test(value);
const nullOrInt32 = (value: unknown) =>
  value === null || (Number.isInteger(value) && Math.abs(value as number) < 2 ** 31);
const isText = (value: unknown) => typeof value === "string";

// Every public field of a form and a listing, in order, with a check of its value. Written by hand and not derived from
// the schemas, so adding or removing a field by accident fails every test that reads a resource.

export const FORM_FIELDS: Record<string, (value: unknown) => boolean> = {
  id: matches(UUID),
  listingId: matches(UUID),
  publicId: nullOrMatches(/^[\w-]{21}$/),
  externalId: (value) => value === null || isText(value),
  status: matches(/^(SENT|COMPLETED|ACCEPTED|REJECTED|VALIDATED|INVALIDATED|CHECKED_OUT|CANCELLED|UNKNOWN)$/),
  checkInDate: nullOrMatches(INSTANT),
  checkOutDate: nullOrMatches(INSTANT),
  numberOfGuests: nullOrInt32,
  numberOfVehicles: nullOrInt32,
  numberOfPets: nullOrInt32,
  createdAt: matches(INSTANT),
  updatedAt: matches(INSTANT),
  guestUrl: (value) => value === null || isText(value),
};
export const LISTING_FIELDS: typeof FORM_FIELDS = {
  id: matches(UUID),
  publicId: matches(/^[\w-]{21}$/),
  externalId: (value) => value === null || isText(value),
  title: isText,
  address: isText,
  city: isText,
  country: isText,
  zipCode: isText,
  district: (value) => value === null || isText(value),
  timezone: isText,
  active: (value) => typeof value === "boolean",
  maxPeopleInListing: nullOrInt32,
  maxVehicles: nullOrInt32,
  allowPets: (value) => value === null || typeof value === "boolean",
  createdAt: matches(INSTANT),
};
