import { z } from "zod";
import { EMAIL_STATES, UNDELIVERED_EMAIL_STATES } from "../constants.js";
import { expected } from "../errors.js";
import { operatorListing } from "../listings/schema.js";
import { cursor, limit, nextCursor } from "../resources/paging.js";
import { clientReference } from "../texts.js";
import { count, day, publicId, resourceId, uncoerced, uuid } from "../values.js";
import { formV1, knownStatus } from "./schema.js";
import { STATUS_RULE } from "./status.js";

// What is not part of the public API: for the operator, the guest's page and users of the application.

/** A form as the operator sees it. `hasGuestEmail`: whether the guest's address is stored. */
export const operatorForm = formV1.extend({ hasGuestEmail: z.boolean() });

export type OperatorForm = z.infer<typeof operatorForm>;

export const byPublicIdInput = z.strictObject({ publicId });

/** What the page behind a guest's link shows. */
export const guestForm = z.object({
  form: formV1,
  listing: operatorListing.pick({
    language: true,
    title: true,
    address: true,
    zipCode: true,
    city: true,
    district: true,
    country: true,
    timezone: true,
    maxPeopleInListing: true,
    maxVehicles: true,
    allowPets: true,
  }),
  /** The operator's setting EMAIL_PRIVACY_URL. */
  privacyUrl: z.string().nullable(),
});

export type GuestForm = z.infer<typeof guestForm>;

/** A form in an operator's list. `emailState`: of its last invitation; null without one. */
const listedForm = formV1.extend({ emailState: z.enum(EMAIL_STATES).nullable() });

export type OperatorListItem = z.infer<typeof listedForm>;

export const listedFormPage = z.object({ items: z.array(listedForm), nextCursor });

const MAX_ARRIVAL_DAYS = 60;

export const listAllInput = z.strictObject({
  limit,
  cursor,
  listingId: uuid.optional(),
  userId: uuid.optional(),
  status: knownStatus.optional(),
  externalId: clientReference.optional(),
  /** Only forms whose check-in is on this day in the time zone of their listing. */
  checkInDay: day.optional(),
  /** Only forms that are SENT and whose check-in is in this many days from now at most. */
  arrivesWithinDays: uncoerced(
    z
      .int("must be an integer")
      .min(1, "must be at least 1")
      .max(MAX_ARRIVAL_DAYS, `must be at most ${MAX_ARRIVAL_DAYS}`),
  ).optional(),
  /** Only forms whose last invitation is in this state. */
  emailState: z
    .enum(UNDELIVERED_EMAIL_STATES, { error: expected(`one of ${UNDELIVERED_EMAIL_STATES.join(", ")}`) })
    .optional(),
});

const partyField = count(0).nullish();

const party = { numberOfVehicles: partyField, numberOfPets: partyField };

const hasParty = (given: { numberOfVehicles?: unknown; numberOfPets?: unknown }) =>
  given.numberOfVehicles !== undefined || given.numberOfPets !== undefined;

const noParty = { path: ["numberOfVehicles"], error: "is required unless numberOfPets is sent" };

/** Vehicles and pets of a form. Absent fields are unchanged; null unsets. */
export const setPartyInput = z.strictObject({ id: resourceId, ...party }).refine(hasParty, noParty);

export const setPartyByPublicIdInput = z.strictObject({ publicId, ...party }).refine(hasParty, noParty);

const statusName = z.string({ error: expected("a string") }).regex(/^[A-Z_]{1,32}$/, STATUS_RULE);

export const setStatusInput = z.strictObject({
  id: resourceId,
  status: statusName,
  /** Change it only if this is the form's status now. */
  from: statusName.optional(),
  /** Operator only: allows a status that this version does not know. */
  force: z.boolean({ error: expected("true or false") }).optional(),
  /** Only checks the change, and returns the form as it is. */
  dryRun: z.boolean({ error: expected("true or false") }).optional(),
});
