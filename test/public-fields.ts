export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const either = (pattern: RegExp) => (value: unknown) =>
  value === null || (typeof value === "string" && pattern.test(value));
export const matches = (pattern: RegExp) => (value: unknown) =>
  typeof value === "string" && pattern.test(value);
const int32 = (value: unknown) =>
  value === null || (Number.isInteger(value) && Math.abs(value as number) < 2 ** 31);
const text = (value: unknown) => typeof value === "string";

// What the interface shows of a form and of a listing: every field in order with what it may hold, and nothing else. Written
// by hand, so that a field which appears or goes unnoticed fails every test that reads one.

export const FORM_FIELDS: Record<string, (value: unknown) => boolean> = {
  id: matches(UUID),
  listingId: matches(UUID),
  publicId: either(/^[\w-]{21}$/),
  status: matches(/^(SENT|COMPLETED|ACCEPTED|REJECTED|VALIDATED|INVALIDATED|CHECKED_OUT|UNKNOWN)$/),
  checkInDate: either(INSTANT),
  checkOutDate: either(INSTANT),
  numberOfGuests: int32,
  numberOfVehicles: int32,
  numberOfPets: int32,
  createdAt: matches(INSTANT),
};
export const LISTING_FIELDS: typeof FORM_FIELDS = {
  id: matches(UUID),
  publicId: matches(/^[\w-]{21}$/),
  title: text,
  address: text,
  city: text,
  country: text,
  zipCode: text,
  district: (value) => value === null || text(value),
  timezone: text,
  active: (value) => typeof value === "boolean",
  maxPeopleInListing: int32,
  maxVehicles: int32,
  allowPets: (value) => value === null || typeof value === "boolean",
  createdAt: matches(INSTANT),
};
