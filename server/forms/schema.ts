import { z } from "zod";
import { expected } from "../errors.js";
import { cursor, limit, nextCursor, pageItems } from "../paging.js";
import {
  count,
  emailAddress,
  inFieldOrder,
  instant,
  instantOut,
  int32Out,
  parseInstant,
  resourceId,
  slug,
  uuid,
} from "../values.js";
import { FORM_STATUSES } from "./status.js";

/** The public projection of a form. */
export const formV1 = z
  .object({
    id: z
      .guid()
      .meta({ description: "Unique id of the form.", example: "8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11" }),
    listingId: z
      .guid()
      .meta({ description: "Listing the form belongs to.", example: "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa" }),
    publicId: z
      .string()
      .nullable()
      .meta({
        description: "Public slug of the form: what the guest's link rests on.",
        example: "V1StGXR8_Z5jdHi6B-myT",
        ...slug,
      }),
    status: z.enum(FORM_STATUSES).meta({
      description:
        "Where the form stands. New values may appear: treat any you do not know like UNKNOWN, which stands for " +
        "every status this version does not enumerate.",
      example: "SENT",
    }),
    checkInDate: instantOut
      .nullable()
      .meta({ description: "Check-in instant, ISO 8601 in UTC.", example: "2027-07-01T13:00:00.000Z" }),
    checkOutDate: instantOut
      .nullable()
      .meta({ description: "Check-out instant, ISO 8601 in UTC.", example: "2027-07-08T09:00:00.000Z" }),
    numberOfGuests: int32Out
      .nullable()
      .meta({ description: "Number of guests on the form.", minimum: 1, example: 4 }),
    numberOfVehicles: int32Out
      .nullable()
      .meta({ description: "Number of vehicles; set by the host.", minimum: 0, example: 1 }),
    numberOfPets: int32Out
      .nullable()
      .meta({ description: "Number of pets; set by the host.", minimum: 0, example: 0 }),
    createdAt: instantOut.meta({
      description: "Creation time, ISO 8601 in UTC; lists are ordered by it.",
      example: "2026-11-21T10:15:30.123Z",
    }),
  })
  .meta({
    id: "FormV1",
    description: "A guest-registration form. New fields may be added: ignore those you do not know.",
  });

export type FormV1 = z.infer<typeof formV1>;

export const formPage = z
  .object({ items: z.array(formV1).meta(pageItems("Forms")), nextCursor })
  .meta({ id: "FormPage", description: "Forms in the order of (createdAt, id), oldest first." });

const body = {
  listingId: uuid.meta({
    description:
      "The listing in scope that the form is on. On update it may be another one: the form is moved.",
    example: "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa",
  }),
  checkInDate: instant.meta({
    description: "Check-in instant: ISO 8601 with seconds and an offset.",
    example: "2027-07-01T15:00:00+02:00",
  }),
  checkOutDate: instant.meta({
    description: "Check-out instant: ISO 8601 with seconds and an offset; after checkInDate.",
    example: "2027-07-08T11:00:00+02:00",
  }),
  numberOfGuests: count(1).meta({
    description: "Number of guests, at most the listing's maxPeopleInListing where that is set.",
    example: 4,
  }),
  guestEmail: emailAddress.nullish().meta({
    description:
      "Contact address of the guest. Write-only: no response carries it. On create it drives the notification; on " +
      "update, absent or null keeps the stored one.",
    example: "guest@example.com",
  }),
};

interface Stay {
  checkInDate: string;
  checkOutDate: string;
}

// Judged whenever both instants can be read, whatever else is wrong with the body.
function endsAfterItBegins({ checkInDate, checkOutDate }: Partial<Stay>): boolean {
  const begin = typeof checkInDate === "string" ? parseInstant(checkInDate) : undefined;
  const end = typeof checkOutDate === "string" ? parseInstant(checkOutDate) : undefined;
  return begin === undefined || end === undefined || end > begin;
}

const stayOrder = {
  path: ["checkOutDate"],
  error: "must be after checkInDate",
  when: ({ value }: { value: unknown }) => typeof value === "object" && value !== null,
};

/** The name of the bodies in the document. */
const formInput = { title: "FormInput", description: "What a create or update says of a stay." };

/** Body of a create. */
export const createInput = z
  .strictObject(body)
  .refine(endsAfterItBegins, stayOrder)
  .check(inFieldOrder(body))
  .meta(formInput);

const formId = resourceId.meta({
  description: "Id of the form, a UUID.",
  example: "8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11",
});

/** Body of an update, and the form's id. */
export const updateInput = z
  .strictObject({ id: formId, ...body })
  .refine(endsAfterItBegins, stayOrder)
  .check(inFieldOrder({ id: formId, ...body }))
  .meta(formInput);

export type FormBody = z.infer<typeof createInput>;

export const getInput = z.strictObject({ id: formId });

export const listInput = z.strictObject({
  limit,
  cursor,
  listingId: uuid
    .meta({
      description:
        "Only forms on this listing; repeat it with every cursor. Out of scope or unknown: an empty page.",
      example: "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa",
    })
    .optional(),
});

/** Forms as the operator lists them: all, or those on one listing, in one user's scope, or both. */
export const listAllInput = z.strictObject({
  limit,
  cursor,
  listingId: uuid.optional(),
  userId: uuid.optional(),
});

/** 1 to 255 printable ASCII characters. */
export const idempotencyKey = z
  .string({ error: expected("a string") })
  .regex(/^[\x20-\x7e]{1,255}$/, "must be 1 to 255 printable ASCII characters")
  .optional()
  .meta({
    description:
      "Chosen by the client, one for each form meant: with the same key and body the original is replayed.",
    example: "booking-4711",
    minLength: 1,
    maxLength: 255,
  });

/** Header of a response that repeats an earlier one. */
export const idempotentReplayed = z
  .enum(["true"])
  .optional()
  .meta({ description: "Present, and true, where the answer is that of an earlier equal request." });

const partyField = count(0).nullish();

/** Vehicles and pets of a form: absent leaves as it is, null unsets. */
export const setPartyInput = z
  .strictObject({ id: resourceId, numberOfVehicles: partyField, numberOfPets: partyField })
  .refine(
    ({ numberOfVehicles, numberOfPets }) => numberOfVehicles !== undefined || numberOfPets !== undefined,
    {
      path: ["numberOfVehicles"],
      error: "is required, unless numberOfPets is given",
    },
  );

export const setStatusInput = z.strictObject({
  id: resourceId,
  status: z
    .string({ error: expected("a string") })
    .regex(/^[A-Z_]{1,32}$/, "must be 1 to 32 of the characters A-Z and _"),
  /** Of the operator: also a status that this version does not know. */
  force: z.boolean({ error: expected("true or false") }).optional(),
});
