import { z } from "zod";
import { EXAMPLE_LISTING_ID } from "../constants.js";
import { expected } from "../errors.js";
import { cursor, limit, nextCursor, pageItems } from "../resources/paging.js";
import { reference, search, text } from "../texts.js";
import { count, instantOut, int32Out, languageTag, line, resourceId, slug, uuid, uuidOut } from "../values.js";
import { isKnownToIntl } from "./timezones.js";

/** The public projection of a listing. */
export const listing = z
  .object({
    id: uuidOut.meta({ description: "Unique id of the listing.", example: EXAMPLE_LISTING_ID }),
    publicId: z.string().meta({
      description: "Random public slug of the listing, 21 characters.",
      example: "kQ2m9_uTz1f8Yc-3RbXwE",
      ...slug,
    }),
    externalId: z
      .string()
      .nullable()
      .meta({ description: "Id of the listing in the operator's own system.", example: "loft-12", ...line(200) }),
    title: z.string().meta({ description: "Name of the listing.", example: "Loft by the canal", ...line(200) }),
    address: z.string().meta({ description: "Street and number.", example: "Paul-Lincke-Ufer 20", ...line(500) }),
    city: z.string().meta({ description: "City.", example: "Berlin", ...line(200) }),
    country: z.string().meta({ description: "Country.", example: "Germany", ...line(200) }),
    zipCode: z.string().meta({ description: "Postal code.", example: "10999", ...line(20) }),
    district: z
      .string()
      .nullable()
      .meta({ description: "District.", example: "Kreuzberg", ...line(200) }),
    timezone: z.string().meta({
      description: "IANA time zone identifier, such as Europe/Berlin.",
      example: "Europe/Berlin",
      pattern: "^[A-Za-z0-9_+/-]+$",
      maxLength: 64,
    }),
    active: z.boolean().meta({
      description: "Whether new forms can be created on the listing, or moved to it.",
      example: true,
    }),
    maxPeopleInListing: int32Out
      .nullable()
      .meta({ description: "Maximum number of guests per form; null for no limit.", minimum: 1, example: 6 }),
    maxVehicles: int32Out.nullable().meta({
      description: "Maximum number of vehicles per form; null for no limit.",
      minimum: 0,
      example: 1,
    }),
    allowPets: z
      .boolean()
      .nullable()
      .meta({ description: "Whether pets are allowed; null if not specified.", example: false }),
    createdAt: instantOut.meta({
      description: "Creation time, ISO 8601 in UTC. Lists are sorted by it.",
      example: "2026-03-02T08:00:00.000Z",
    }),
  })
  .meta({ id: "Listing", description: "A listing. New fields may be added: ignore fields you do not know." });

export type Listing = z.infer<typeof listing>;

/** A listing as the operator sees it. */
export const operatorListing = listing.extend({
  /** Of the invitation that guests get, a BCP 47 tag. */
  language: z.string().nullable(),
});

export type OperatorListing = z.infer<typeof operatorListing>;

export const operatorListingPage = z.object({ items: z.array(operatorListing), nextCursor });

export const findInput = z.strictObject({ listing: reference });

export const listingPage = z
  .object({ items: z.array(listing).meta(pageItems("Listings")), nextCursor })
  .meta({ id: "ListingPage", description: "A page of listings, sorted by (createdAt, id), oldest first." });

export const getInput = z.strictObject({
  id: resourceId.meta({
    description: "Id of the listing, a UUID.",
    example: EXAMPLE_LISTING_ID,
  }),
});

export const listInput = z.strictObject({ limit, cursor });

export const listAllInput = z.strictObject({ limit, cursor, userId: uuid.optional(), search });

// Not `US/Eastern` or `EST`: Postgres may not know such old names, or give some of them another meaning.
const TIMEZONE_NAME =
  /^(UTC|GMT|(Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Etc|Europe|Indian|Pacific)\/.+)$/i;

/** Writes also ask the database: `timezones.ts`. */
const isTimezone = (name: string) => TIMEZONE_NAME.test(name) && isKnownToIntl(name);

const required = {
  title: text(200),
  address: text(500),
  city: text(200),
  country: text(200),
  zipCode: text(20),
  timezone: text(64).refine(isTimezone, "must be an IANA time zone of an area and city, such as Europe/Berlin"),
};

const optional = {
  district: text(200).nullish(),
  maxPeopleInListing: count(1).nullish(),
  maxVehicles: count(0).nullish(),
  allowPets: z.boolean({ error: expected("true or false") }).nullish(),
  language: languageTag.nullish(),
};

const active = z.boolean({ error: expected("true or false") });

/** A new listing and the user id of its owner. */
export const createInput = z.strictObject({
  ownerId: resourceId,
  ...required,
  active: active.default(true),
  ...optional,
});

/** Changes to a listing. Absent fields are unchanged; null unsets. */
export const updateInput = z.strictObject({
  id: resourceId,
  ...z.object(required).partial().shape,
  active: active.optional(),
  ...optional,
});

export const deactivateInput = z.strictObject({ id: resourceId });
