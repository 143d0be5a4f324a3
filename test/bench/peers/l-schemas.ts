// JSON schemas that Fastify compiles into validators and serializers. Properties are in the order of the service's JSON.

export const STATUSES = [
  "SENT",
  "COMPLETED",
  "ACCEPTED",
  "REJECTED",
  "VALIDATED",
  "INVALIDATED",
  "CHECKED_OUT",
];

const text = { type: "string" };
const textOrNull = { type: "string", nullable: true };
const wholeOrNull = { type: "integer", nullable: true };

const form = {
  type: "object",
  properties: {
    id: text,
    listingId: text,
    publicId: text,
    status: text,
    checkInDate: textOrNull,
    checkOutDate: textOrNull,
    numberOfGuests: wholeOrNull,
    numberOfVehicles: wholeOrNull,
    numberOfPets: wholeOrNull,
    createdAt: text,
  },
};

const listing = {
  type: "object",
  properties: {
    id: text,
    publicId: text,
    title: text,
    address: text,
    city: text,
    country: text,
    zipCode: text,
    district: textOrNull,
    timezone: text,
    active: { type: "boolean" },
    maxPeopleInListing: wholeOrNull,
    maxVehicles: wholeOrNull,
    allowPets: { type: "boolean", nullable: true },
    createdAt: text,
  },
};

const page = (items: object) => ({
  type: "object",
  properties: { items: { type: "array", items }, nextCursor: textOrNull },
});

const params = {
  type: "object",
  properties: { id: { type: "string", pattern: "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$" } },
};

const paging = { limit: { type: "integer", default: 50 }, cursor: text };

export const fetchForm = { params, response: { 200: form } };
export const fetchListing = { params, response: { 200: listing } };
export const listForms = {
  querystring: {
    type: "object",
    properties: { ...paging, listingId: params.properties.id },
    additionalProperties: false,
  },
  response: { 200: page(form) },
};
export const listListings = {
  querystring: { type: "object", properties: paging, additionalProperties: false },
  response: { 200: page(listing) },
};
export const createForm = {
  body: {
    type: "object",
    required: ["listingId", "checkInDate", "checkOutDate", "numberOfGuests"],
    properties: {
      listingId: params.properties.id,
      checkInDate: { type: "string", format: "date-time" },
      checkOutDate: { type: "string", format: "date-time" },
      numberOfGuests: { type: "integer", minimum: 1, maximum: 2_147_483_647 },
      guestEmail: { type: "string", format: "email", maxLength: 254, nullable: true },
    },
    additionalProperties: false,
  },
  response: { 201: form },
};
