// The public fields and statuses, as someone who writes a peer by hand would list them. The peers and the data follow.

type FieldType = "text" | "textOrNull" | "integerOrNull" | "boolean" | "booleanOrNull" | "instant" | "instantOrNull";
export type Fields = Record<string, readonly [column: string, type: FieldType]>;

/** In the order of the service's JSON. */
export const FORM = {
  id: ["id", "text"],
  listingId: ["listing_id", "text"],
  publicId: ["public_id", "text"],
  status: ["status", "text"],
  checkInDate: ["check_in_date", "instantOrNull"],
  checkOutDate: ["check_out_date", "instantOrNull"],
  numberOfGuests: ["number_of_guests", "integerOrNull"],
  numberOfVehicles: ["number_of_vehicles", "integerOrNull"],
  numberOfPets: ["number_of_pets", "integerOrNull"],
  createdAt: ["created_at", "instant"],
} as const satisfies Fields;

export const LISTING = {
  id: ["id", "text"],
  publicId: ["public_id", "text"],
  title: ["title", "text"],
  address: ["address", "text"],
  city: ["city", "text"],
  country: ["country", "text"],
  zipCode: ["zip_code", "text"],
  district: ["district", "textOrNull"],
  timezone: ["timezone", "text"],
  active: ["active", "boolean"],
  maxPeopleInListing: ["max_people_in_listing", "integerOrNull"],
  maxVehicles: ["max_vehicles", "integerOrNull"],
  allowPets: ["allow_pets", "booleanOrNull"],
  createdAt: ["created_at", "instant"],
} as const satisfies Fields;

export const STATUSES = ["SENT", "COMPLETED", "ACCEPTED", "REJECTED", "VALIDATED", "INVALIDATED", "CHECKED_OUT"];

/** The columns of a SELECT from this alias. */
export const columns = (fields: Fields, alias: string): string =>
  Object.entries(fields)
    .map(([name, [column]]) => `${alias}.${column} AS "${name}"`)
    .join(", ");

/** A `select` of Prisma's client. */
export const prismaSelect = <Given extends Fields>(fields: Given) =>
  Object.fromEntries(Object.keys(fields).map((name) => [name, true])) as { [Name in keyof Given]: true };

/** SQL that makes the JSON of a row. `iso` formats an instant. */
export const jsonSql = (fields: Fields, alias: string, iso: (column: string) => string): string => {
  const expressionOf = (column: string, type: FieldType) =>
    type.startsWith("instant") ? iso(`${alias}.${column}`) : `${alias}.${column}`;
  const pairs = Object.entries(fields).map(([name, [column, type]]) => `'${name}', ${expressionOf(column, type)}`);
  return `jsonb_build_object(${pairs.join(", ")})`;
};

const JSON_TYPES = { text: "string", integer: "integer", boolean: "boolean", instant: "string" };

/** A schema that Fastify compiles into a serializer. */
export const jsonSchema = (fields: Fields) => ({
  type: "object",
  properties: Object.fromEntries(
    Object.entries(fields).map(([name, [, type]]) => [
      name,
      {
        type: JSON_TYPES[type.replace("OrNull", "") as keyof typeof JSON_TYPES],
        ...(type.endsWith("OrNull") && { nullable: true }),
      },
    ]),
  ),
});
