import {
  create,
  created,
  createdWith,
  ID,
  idempotencyKey,
  invalid,
  notFound,
  ok,
  post,
  put,
  type Row,
  stay,
  stayOn,
  withProperty,
} from "./row.js";

export const listingIds: Row[] = [
  ...["", "x", `{${ID.listing}}`, null, 1, [ID.listing]].map(
    (listingId): Row => [
      `a malformed listingId: ${JSON.stringify(listingId)}`,
      create({ listingId }),
      invalid("listingId"),
    ],
  ),
  [
    "a listingId in upper case",
    create({ listingId: ID.listing.toUpperCase() }),
    { ...created, headers: { "idempotent-replayed": null } },
  ],
  ["the listing of another holder", post(stayOn(ID.otherHolderListing)), notFound],
  ["a listing on which the holder is a reader", post(stayOn(ID.readerListing)), notFound],
  ["a listing that does not exist", post(stayOn(ID.missing)), notFound],
  ["the nil UUID", post(stayOn("00000000-0000-0000-0000-000000000000")), notFound],
  ["the max UUID", post(stayOn("ffffffff-ffff-ffff-ffff-ffffffffffff")), notFound],
  ["an update to the listing of another holder", put(stayOn(ID.otherHolderListing)), notFound],
  ["an update to a listing on which the holder is a reader", put(stayOn(ID.readerListing)), notFound],
  ["an update to a listing that does not exist", put(stayOn(ID.missing)), notFound],
  ["an update of another holder's form", put(stay(), `/v1/forms/${ID.otherHolderForm}`), notFound],
  [
    "an update of a form on a listing on which the holder is a reader",
    put(stay(), `/v1/forms/${ID.readerForm}`),
    notFound,
  ],
  ["an update of a form that does not exist", put(stay(), `/v1/forms/${ID.missing}`), notFound],
  ["an update by another holder", put(stayOn(ID.otherHolderListing), { key: "otherHolder" }), notFound],
  ["an inactive listing", post(stayOn(ID.inactiveListing)), invalid("listingId")],
  [
    "an inactive listing with a lower capacity",
    post(stayOn(ID.inactiveListing, { numberOfGuests: 9 })),
    invalid("listingId", "numberOfGuests"),
  ],
  ["a move to an inactive listing", put(stayOn(ID.inactiveListing)), invalid("listingId")],
  ["a move to another listing", put(stayOn(ID.secondListing)), ok],
  ["a move back", put(stay()), ok],
];

export const guests: Row[] = [
  ...["3", true, null, 2.5, 0, -1, 2_147_483_648, 1e300, "", [], [2], {}].map(
    (numberOfGuests): Row => [
      `numberOfGuests that is ${JSON.stringify(numberOfGuests)}`,
      create({ numberOfGuests }),
      invalid("numberOfGuests"),
    ],
  ),
  ["numberOfGuests 1e400", post(withProperty('"numberOfGuests":1e400')), invalid("numberOfGuests")],
  ["numberOfGuests -0", post(withProperty('"numberOfGuests":-0')), invalid("numberOfGuests")],
  ["numberOfGuests 2.0", post(withProperty('"numberOfGuests":2.0')), created],
  ["numberOfGuests 20e-1", post(withProperty('"numberOfGuests":20e-1')), created],
  [
    "numberOfGuests 1e1, on a listing without a limit",
    post(withProperty(`"numberOfGuests":1e1,"listingId":"${ID.secondListing}"`)),
    created,
  ],
  ["as many guests as the listing allows", create({ numberOfGuests: 4 }), created],
  ["one guest more than the listing allows", create({ numberOfGuests: 5 }), invalid("numberOfGuests")],
  [
    "an update to one guest more than the listing allows",
    put(stay({ numberOfGuests: 5 })),
    invalid("numberOfGuests"),
  ],
  [
    "2147483647 guests on a listing without a limit",
    post(stayOn(ID.secondListing, { numberOfGuests: 2_147_483_647 })),
    created,
  ],
  ["numberOfGuests missing", create({ numberOfGuests: undefined }), invalid("numberOfGuests")],
];

const between = (checkInDate: unknown, checkOutDate: string) => ({ checkInDate, checkOutDate });
const withCheckIn = (checkInDate: unknown) => create(between(checkInDate, "9999-12-31T23:59:59.999Z"));
export const instants: Row[] = [
  ...[
    "2031-01-01T15:00:00",
    "2031-02-31T15:00:00Z",
    "1969-12-31T23:59:59.999Z",
    "",
    1_924_000_000_000,
    null,
    {},
  ].map(
    (value): Row => [`not an instant: ${JSON.stringify(value)}`, withCheckIn(value), invalid("checkInDate")],
  ),
  ...[
    ["2031-01-01T15:00:00Z", "2031-01-01T15:00:00.000Z"],
    ["2031-01-01T00:30:00+05:45", "2030-12-31T18:45:00.000Z"],
    ["2031-01-01T15:00:02-23:59", "2031-01-02T14:59:02.000Z"],
    ["2031-01-01T15:00:00.123999999Z", "2031-01-01T15:00:00.123Z"],
  ].map(
    ([value, checkInDate]): Row => [`an instant: ${value}`, withCheckIn(value), createdWith({ checkInDate })],
  ),
  [
    "a check-out equal to the check-in, with another offset",
    create(between("2031-01-01T15:00:00Z", "2031-01-01T17:00:00+02:00")),
    invalid("checkOutDate"),
  ],
  [
    "a check-out one millisecond after the check-in",
    create(between("2031-01-01T15:00:00.000Z", "2031-01-01T15:00:00.001Z")),
    created,
  ],
  [
    "a check-out after the check-in whose text sorts before it",
    create(between("2031-01-02T01:00:00+12:00", "2031-01-01T23:00:00-12:00")),
    created,
  ],
  [
    "an update with a check-out before the check-in",
    put(stay(between("2031-01-02T15:00:00Z", "2031-01-01T15:00:00Z"))),
    invalid("checkOutDate"),
  ],
  ["checkInDate missing", create({ checkInDate: undefined }), invalid("checkInDate")],
  ["checkOutDate missing", create({ checkOutDate: undefined }), invalid("checkOutDate")],
];

export const emails: Row[] = [
  ...[
    "",
    "a@b",
    "a@example.com, b@example.com",
    "a@example.com\r\nBcc: b@example.com",
    `${"a".repeat(65)}@example.com`,
    1,
    {},
  ].map(
    (guestEmail): Row => [
      `not an email address: ${JSON.stringify(guestEmail)}`,
      create({ guestEmail }),
      invalid("guestEmail"),
    ],
  ),
  ["an email address", create({ guestEmail: "ana+stay@mail.example.com" }), created],
  [
    "an email address of 254 characters",
    create({ guestEmail: `${"a".repeat(64)}@${`${"b".repeat(61)}.`.repeat(3)}de` }),
    created,
  ],
  ["a guestEmail that is null", create({ guestEmail: null }), created],
  ["an update with an email address", put(stay({ guestEmail: "ana@example.com" })), ok],
];

const keyed = (value: string | string[]) => post(stay(), idempotencyKey(value));
const badKey = invalid("Idempotency-Key");
export const idempotency: Row[] = [
  ["an Idempotency-Key of one character", keyed("1"), created],
  ["an Idempotency-Key of 255 characters", keyed("k".repeat(255)), created],
  ["an Idempotency-Key of 256 characters", keyed("k".repeat(256)), badKey],
  [
    "an Idempotency-Key of all printable ASCII characters",
    keyed(String.fromCharCode(...Array.from({ length: 94 }, (_, n) => 33 + n))),
    created,
  ],
  ["an Idempotency-Key with spaces and commas within", keyed("stay 1, room 2"), created],
  ["an empty Idempotency-Key", keyed(""), badKey],
  ["an Idempotency-Key of spaces", keyed("   "), badKey],
  ["an Idempotency-Key with Latin-1 bytes", keyed("cl\xe9"), badKey],
  ["an Idempotency-Key with UTF-8 bytes", keyed(Buffer.from("clé").toString("latin1")), badKey],
  ["an Idempotency-Key with a tab within", keyed("a\tb"), badKey],
  ["an Idempotency-Key sent twice", keyed(["one", "two"]), badKey],
  ["an Idempotency-Key sent twice with the same value", keyed(["same", "same"]), badKey],
  ["an Idempotency-Key sent twice, once empty", keyed(["same", ""]), badKey],
  ["a bad Idempotency-Key on an update is ignored", put(stay(), idempotencyKey("")), ok],
  ["two Idempotency-Keys on an update are ignored", put(stay(), idempotencyKey(["one", "two"])), ok],
  ["a bad Idempotency-Key on a GET is ignored", idempotencyKey(""), ok],
];
