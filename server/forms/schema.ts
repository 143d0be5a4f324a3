import { z } from "zod";
import type { Context } from "../access/context.js";
import { EXAMPLE_FORM_ID, EXAMPLE_LISTING_ID } from "../constants.js";
import { expected, invalid } from "../errors.js";
import { cursor, limit, nextCursor, pageItems } from "../resources/paging.js";
import { clientReference } from "../texts.js";
import {
  count,
  emailAddress,
  inFieldOrder,
  instant,
  instantOut,
  int32Out,
  line,
  resourceId,
  slug,
  uuid,
  uuidOut,
} from "../values.js";
import { FORM_STATUSES, type FormStatus, KNOWN_STATUSES } from "./status.js";

/** The public projection of a form. */
export const formV1 = z
  .object({
    id: uuidOut.meta({ description: "Unique id of the form.", example: EXAMPLE_FORM_ID }),
    listingId: uuidOut.meta({ description: "Listing the form belongs to.", example: EXAMPLE_LISTING_ID }),
    publicId: z
      .string()
      .nullable()
      .meta({
        description:
          "Random slug of the form, 21 characters, for the link that the guest opens. Anyone who has it can open the form.",
        example: "V1StGXR8_Z5jdHi6B-myT",
        ...slug,
      }),
    externalId: z
      .string()
      .nullable()
      .meta({
        description: "The client's own reference, as sent; null if none was sent.",
        example: "booking-4711",
        ...line(255),
      }),
    status: z.enum(FORM_STATUSES).meta({
      description:
        "Status of the form. UNKNOWN stands for any status that this version does not list. New values may be added: " +
        "handle a value you do not know like UNKNOWN.",
      example: "SENT",
    }),
    checkInDate: instantOut
      .nullable()
      .meta({ description: "Check-in instant, ISO 8601 in UTC.", example: "2027-07-01T13:00:00.000Z" }),
    checkOutDate: instantOut
      .nullable()
      .meta({ description: "Check-out instant, ISO 8601 in UTC.", example: "2027-07-08T09:00:00.000Z" }),
    numberOfGuests: int32Out.nullable().meta({ description: "Number of guests on the form.", minimum: 1, example: 4 }),
    numberOfVehicles: int32Out.nullable().meta({
      description: "Number of vehicles. Set by the guest or the host in the operator's app; null until then.",
      minimum: 0,
      example: null,
    }),
    numberOfPets: int32Out.nullable().meta({
      description: "Number of pets. Set by the guest or the host in the operator's app; null until then.",
      minimum: 0,
      example: null,
    }),
    createdAt: instantOut.meta({
      description: "Creation time, ISO 8601 in UTC. Lists are sorted by it.",
      example: "2026-11-21T10:15:30.123Z",
    }),
    updatedAt: instantOut.meta({
      description:
        "Time of the last change of any of these fields except `guestUrl`, ISO 8601 in UTC. `createdAt` before the first change.",
      example: "2026-11-21T10:15:30.123Z",
    }),
    guestUrl: z
      .string()
      .nullable()
      .meta({
        description:
          "Link to the page where the guest fills in the form, with the `publicId`. Null if the operator has set no such page. It " +
          "follows the operator's setting: do not store it.",
        example: "https://stays.example.com/register/V1StGXR8_Z5jdHi6B-myT",
        format: "uri",
        maxLength: 2000,
      }),
  })
  .meta({
    id: "FormV1",
    description: "A guest-registration form. New fields may be added: ignore fields you do not know.",
  });

export type FormV1 = z.infer<typeof formV1>;

/** The public status of a stored one. */
export const projectStatus = (status: string): FormStatus =>
  (FORM_STATUSES as readonly string[]).includes(status) ? (status as FormStatus) : "UNKNOWN";

export const formPage = z
  .object({ items: z.array(formV1).meta(pageItems("Forms")), nextCursor })
  .meta({ id: "FormPage", description: "A page of forms, sorted by (createdAt, id), oldest first." });

const body = {
  listingId: uuid.meta({
    description:
      "Listing the form belongs to. It must be in the key's scope. On update, another listing moves the form there.",
    example: EXAMPLE_LISTING_ID,
  }),
  checkInDate: instant.meta({
    description: "Check-in instant: ISO 8601 with a UTC offset, such as 2027-07-01T15:00:00+02:00.",
    example: "2027-07-01T15:00:00+02:00",
  }),
  checkOutDate: instant.meta({
    description: "Check-out instant: ISO 8601 with a UTC offset. Must be after checkInDate.",
    example: "2027-07-08T11:00:00+02:00",
  }),
  numberOfGuests: count(1).meta({
    description: "Number of guests: from 1 to the listing's maxPeopleInListing, if that is set.",
    example: 4,
  }),
  guestEmail: emailAddress.nullish().meta({
    description:
      "Email address of the guest, at most 254 characters. Write-only: never returned. On create, the guest is sent a link to the form, " +
      "unless the stay is over. On update, the stored address is kept if this is absent or null; another address is sent the link " +
      "if the form is SENT and the stay is not over.",
    example: "guest@example.com",
  }),
  externalId: clientReference.nullish().meta({
    description:
      "The client's own reference, such as the booking's id, of 1 to 255 UTF-16 code units. Stays that differ only in it are two forms. " +
      "On update, the stored one is kept if this is absent, and removed if it is null.",
    // Not `example`, which the code samples send.
    examples: ["booking-4711"],
  }),
};

const cancelled = z
  .literal(true, { error: () => "must be true, or absent" })
  .optional()
  .meta({
    description:
      "Update only. Cancels the form, for good: its status becomes CANCELLED, and its guest's address is removed. The other " +
      "properties are required and validated, but not applied.",
    // Not `example`, which the code samples send.
    examples: [true],
  });

/** A check that `end` is after `begin`, if both instants are valid, even if other fields are not. */
const isAfter = (end: string, begin: string) =>
  z.refine<Record<string, unknown>>(
    ({ [begin]: first, [end]: last }) => !(first instanceof Date && last instanceof Date) || last > first,
    {
      path: [end],
      error: `must be after ${begin}`,
      // A Date that a caller in the same process has sent is an error already.
      when: ({ value, issues }) =>
        typeof value === "object" &&
        value !== null &&
        !issues.some(({ path }) => path?.[0] === begin || path?.[0] === end),
    },
  );

export const createInput = z
  .strictObject(body)
  .check(isAfter("checkOutDate", "checkInDate"), inFieldOrder(body))
  // The title names the schema in the OpenAPI document.
  .meta({ title: "FormInput", description: "The stay, as sent by a create." });

const formId = resourceId.meta({
  description: "Id of the form, a UUID.",
  example: EXAMPLE_FORM_ID,
});

const update = { id: formId, ...body, cancelled };

/** Body and form id of an update. */
export const updateInput = z
  .strictObject(update)
  .check(isAfter("checkOutDate", "checkInDate"), inFieldOrder(update))
  .meta({ title: "FormUpdate", description: "The stay, as sent by an update." });

/** A body as sent. */
export type FormBody = z.input<typeof createInput>;

/** A body that the schema has accepted. */
export type ParsedBody = z.output<typeof createInput>;

export const getInput = z.strictObject({ id: formId });

export const knownStatus = z.enum(KNOWN_STATUSES, { error: expected(`one of ${KNOWN_STATUSES.join(", ")}`) });

const filters = {
  status: knownStatus.meta({ description: "Only return forms in this status.", examples: ["SENT"] }).optional(),
  externalId: clientReference
    .meta({ description: "Only return forms with exactly this `externalId`.", examples: ["booking-4711"] })
    .optional(),
  updatedSince: instant
    .meta({
      description:
        "Only return forms whose `updatedAt` is this instant or later. To poll for changes, send the latest `updatedAt` in the pages of " +
        "the read before, minus the time that it took, minus 60 seconds.",
      example: "2026-11-21T10:14:30.123Z",
    })
    .optional(),
  checkInFrom: instant
    .meta({
      description: "Only return forms whose `checkInDate` is this instant or later.",
      example: "2027-07-01T00:00:00+02:00",
    })
    .optional(),
  checkInTo: instant
    .meta({
      description: "Only return forms whose `checkInDate` is before this instant. Must be after checkInFrom.",
      example: "2027-07-02T00:00:00+02:00",
    })
    .optional(),
};

const list = {
  limit,
  cursor,
  listingId: uuid
    .meta({
      description: "Only return forms on this listing. A listing that is unknown or out of scope gives an empty page.",
      // Not `example`, which the code samples send.
      examples: [EXAMPLE_LISTING_ID],
    })
    .optional(),
  ...filters,
};

/** A page of forms. Filters can be combined, and are sent again with every cursor. */
export const listInput = z.strictObject(list).check(isAfter("checkInTo", "checkInFrom"), inFieldOrder(list));

/** The filters of a list except `listingId`, as text: only those that were sent. */
export type FormFilters = { [Name in keyof typeof filters]?: string };

export function filtersOf(input: z.output<typeof listInput>): FormFilters {
  const given = Object.keys(filters).flatMap((name) => {
    const value = input[name as keyof FormFilters];
    return value === undefined ? [] : [[name, value instanceof Date ? value.toISOString() : value]];
  });
  return Object.fromEntries(given);
}

/** 1 to 255 printable ASCII characters. */
export const idempotencyKey = z
  .string({ error: expected("a string") })
  .regex(/^[\x20-\x7e]{1,255}$/, "must be 1 to 255 printable ASCII characters")
  .optional()
  .meta({
    description:
      "Key chosen by the client, 1 to 255 printable ASCII characters. Retrying with the same key and body returns the original " +
      "response. Not needed if each booking's own id is its `externalId`. Two creates with equal bodies are one form, even with " +
      "two keys, until the form was updated or has ended: then a new key creates a new form.",
    example: "booking-4711",
    minLength: 1,
    maxLength: 255,
  });

/** The Idempotency-Key of a call. Callers in process send it as they got it. */
export function readIdempotencyKey({ idempotencyKey: sent }: Pick<Context, "idempotencyKey">): string | undefined {
  const key = idempotencyKey.safeParse(sent);
  if (key.success) return key.data;
  throw invalid([{ field: "Idempotency-Key", issue: key.error.issues[0]?.message ?? "is not valid" }]);
}

/** Response header of a replay. */
export const idempotentReplayed = z.enum(["true"]).optional().meta({
  description: "Present, with the value true, if this response is a replay.",
  example: "true",
});
