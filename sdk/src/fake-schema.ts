// Written by `npm run generate`.
import type { FormV1, KnownErrorCode, Listing } from "./schema.js";

/** The statuses in which a booking is over. */
export const ENDED_STATUSES: readonly string[] = ["REJECTED", "INVALIDATED", "CHECKED_OUT", "CANCELLED"];

/** The code of a status that has only one. */
export const CODES: Record<number, KnownErrorCode> = {
  "401": "UNAUTHENTICATED",
  "403": "FORBIDDEN",
  "404": "RESOURCE_NOT_FOUND",
  "405": "RESOURCE_NOT_FOUND",
  "408": "VALIDATION_ERROR",
  "413": "PAYLOAD_TOO_LARGE",
  "415": "VALIDATION_ERROR",
  "417": "VALIDATION_ERROR",
  "422": "IDEMPOTENCY_KEY_REUSED",
  "429": "RATE_LIMITED",
  "431": "VALIDATION_ERROR",
};

export const NEW_FORM: FormV1 = {
  id: "8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11",
  listingId: "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa",
  publicId: null,
  externalId: null,
  status: "SENT",
  checkInDate: null,
  checkOutDate: null,
  numberOfGuests: null,
  numberOfVehicles: null,
  numberOfPets: null,
  createdAt: "2026-11-21T10:15:30.123Z",
  updatedAt: "2026-11-21T10:15:30.123Z",
  guestUrl: null,
};

export const NEW_LISTING: Listing = {
  id: "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa",
  publicId: "kQ2m9_uTz1f8Yc-3RbXwE",
  externalId: null,
  title: "Loft by the canal",
  address: "Paul-Lincke-Ufer 20",
  city: "Berlin",
  country: "Germany",
  zipCode: "10999",
  district: null,
  timezone: "Europe/Berlin",
  active: true,
  maxPeopleInListing: null,
  maxVehicles: null,
  allowPets: null,
  createdAt: "2026-03-02T08:00:00.000Z",
};

/** Keywords of JSON Schema. */
export interface FieldSchema {
  type: string;
  isRequired: boolean;
  isNullable: boolean;
  const?: string | boolean;
  enum?: string[];
  format?: string;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  pattern?: string;
}

/** The fields of a create's body. */
export const BODY_FIELDS: Record<string, FieldSchema> = {
  listingId: { type: "string", isRequired: true, isNullable: false, format: "uuid", maxLength: 36 },
  checkInDate: { type: "string", isRequired: true, isNullable: false, format: "date-time", maxLength: 35 },
  checkOutDate: { type: "string", isRequired: true, isNullable: false, format: "date-time", maxLength: 35 },
  numberOfGuests: {
    type: "integer",
    isRequired: true,
    isNullable: false,
    format: "int32",
    minimum: 1,
    maximum: 2147483647,
  },
  guestEmail: { type: "string", isRequired: false, isNullable: true, format: "email", maxLength: 254 },
  externalId: {
    type: "string",
    isRequired: false,
    isNullable: true,
    maxLength: 255,
    pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]*$",
  },
};

/** The fields of an update's body. */
export const UPDATE_FIELDS: Record<string, FieldSchema> = {
  listingId: { type: "string", isRequired: true, isNullable: false, format: "uuid", maxLength: 36 },
  checkInDate: { type: "string", isRequired: true, isNullable: false, format: "date-time", maxLength: 35 },
  checkOutDate: { type: "string", isRequired: true, isNullable: false, format: "date-time", maxLength: 35 },
  numberOfGuests: {
    type: "integer",
    isRequired: true,
    isNullable: false,
    format: "int32",
    minimum: 1,
    maximum: 2147483647,
  },
  guestEmail: { type: "string", isRequired: false, isNullable: true, format: "email", maxLength: 254 },
  externalId: {
    type: "string",
    isRequired: false,
    isNullable: true,
    maxLength: 255,
    pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]*$",
  },
  cancelled: { type: "boolean", isRequired: false, isNullable: false, const: true },
};

/** The filters of the list of forms. */
export const FILTER_FIELDS: Record<string, FieldSchema> = {
  listingId: { type: "string", isRequired: false, isNullable: false, format: "uuid", maxLength: 36 },
  status: {
    type: "string",
    isRequired: false,
    isNullable: false,
    enum: ["SENT", "COMPLETED", "ACCEPTED", "REJECTED", "VALIDATED", "INVALIDATED", "CHECKED_OUT", "CANCELLED"],
  },
  externalId: {
    type: "string",
    isRequired: false,
    isNullable: false,
    maxLength: 255,
    pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]*$",
  },
  updatedSince: { type: "string", isRequired: false, isNullable: false, format: "date-time", maxLength: 35 },
  checkInFrom: { type: "string", isRequired: false, isNullable: false, format: "date-time", maxLength: 35 },
  checkInTo: { type: "string", isRequired: false, isNullable: false, format: "date-time", maxLength: 35 },
};
