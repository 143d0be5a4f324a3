import { z } from "zod";
import { EXAMPLE_LISTING_ID } from "../constants.js";
import {
  guestPageProcedure,
  inAppProcedure,
  operatorProcedure,
  readingProcedure,
  router,
  writingProcedure,
} from "../trpc.js";
import * as inApp from "./in-app-schema.js";
import { getAnyForm, getForm, getFormByPublicId, listAllForms, listForms } from "./read-forms.js";
import * as schema from "./schema.js";
import { ANY_ENDED_STATUS } from "./status.js";
import {
  completeByPublicId,
  createForm,
  setParty,
  setPartyByPublicId,
  setStatus,
  updateFormStay,
} from "./write-form.js";

const BREAKS_RULE = "the stay breaks a rule of the listing.";

/** The errors of a procedure with `meta` are its `codes`, VALIDATION_ERROR and FORBIDDEN (of a read-only key) included. */
export const formsRouter = router({
  /** Creates a form. An equal request returns the form of the first one (gateway/docs/contract.md#idempotency). */
  create: writingProcedure
    .meta({
      openapi: {
        method: "POST",
        path: "/v1/forms",
        operationId: "createForm",
        tags: ["Forms"],
        summary: "Create form",
        description:
          "Creates a form on a listing in the key's scope. Requires a read-write key. Repeating a request never creates a " +
          "second form and never notifies the guest twice: it returns the original response with " +
          "`Idempotent-Replayed: true`. Requests with equal bodies are one form: give each booking's own id as `externalId`. " +
          `Without it, an equal stay needs a new \`Idempotency-Key\`, after that form was updated, or is ${ANY_ENDED_STATUS}.`,
        successDescription: "The created form, or on a replay the form that an earlier equal request created.",
        requestHeaders: z.object({ "Idempotency-Key": schema.idempotencyKey }),
        responseHeaders: z.object({ "Idempotent-Replayed": schema.idempotentReplayed }),
      },
      status: 201,
      location: "/v1/forms/{id}",
      codes: ["VALIDATION_ERROR", "FORBIDDEN", "RESOURCE_NOT_FOUND", "PAYLOAD_TOO_LARGE", "IDEMPOTENCY_KEY_REUSED"],
      when: {
        VALIDATION_ERROR: `A property or header is wrong, or ${BREAKS_RULE}`,
        RESOURCE_NOT_FOUND:
          "The listing does not exist or is out of the key's scope. Or the request is a replay, and its form has left the scope.",
        IDEMPOTENCY_KEY_REUSED: "The `Idempotency-Key` was already used with a different body.",
      },
    })
    .input(schema.createInput)
    .output(schema.formV1)
    .mutation(createForm),

  /**
   * Replaces a form's stay, or cancels the form (gateway/docs/contract.md#create-and-update). Another `listingId` moves the form;
   * without `guestEmail` and `externalId` it keeps the stored ones.
   */
  update: writingProcedure
    .meta({
      openapi: {
        method: "PUT",
        path: "/v1/forms/{id}",
        operationId: "updateForm",
        tags: ["Forms"],
        summary: "Update form",
        description:
          "Replaces the stay of a form. A different `listingId` moves the form to that listing. Requires a read-write key, " +
          "and both listings must be in its scope. With `cancelled`, the form is cancelled instead. Otherwise the status does not " +
          "change.",
        successDescription: "The updated form.",
      },
      status: 200,
      codes: ["VALIDATION_ERROR", "FORBIDDEN", "RESOURCE_NOT_FOUND", "PAYLOAD_TOO_LARGE"],
      when: {
        VALIDATION_ERROR: `A property is wrong, the form is cancelled, or ${BREAKS_RULE}`,
        RESOURCE_NOT_FOUND: "The form or the listing does not exist or is out of the key's scope.",
      },
      example: {
        listingId: EXAMPLE_LISTING_ID,
        checkInDate: "2027-07-01T15:00:00+02:00",
        checkOutDate: "2027-07-09T11:00:00+02:00",
        numberOfGuests: 3,
      },
    })
    .input(schema.updateInput)
    .output(schema.formV1)
    .mutation(updateFormStay),

  /** Forms in scope, or those on one listing, oldest first (gateway/docs/contract.md#lists). */
  list: readingProcedure
    .meta({
      openapi: {
        method: "GET",
        path: "/v1/forms",
        operationId: "listForms",
        tags: ["Forms"],
        summary: "List forms",
        description:
          "Returns the forms on the listings in the key's scope, sorted by (createdAt, id), oldest first. A cursor never " +
          "skips a form, unless its creation took longer than 5 seconds to commit. The operator can change this time.",
        successDescription: "A page of forms.",
      },
      status: 200,
      codes: ["INVALID_CURSOR", "VALIDATION_ERROR"],
      when: {
        INVALID_CURSOR: "This endpoint has not returned the cursor for the same filters.",
        VALIDATION_ERROR: "A parameter is wrong or unknown.",
      },
      example: { limit: 20 },
    })
    .input(schema.listInput)
    .output(schema.formPage)
    .query(listForms),

  /** A form in scope. */
  get: readingProcedure
    .meta({
      openapi: {
        method: "GET",
        path: "/v1/forms/{id}",
        operationId: "getForm",
        tags: ["Forms"],
        summary: "Fetch form",
        description: "Returns a form by its id. A form out of scope gives the same 404 as one that does not exist.",
        successDescription: "The form.",
      },
      status: 200,
      codes: ["RESOURCE_NOT_FOUND"],
      when: { RESOURCE_NOT_FOUND: "The form does not exist or is out of the key's scope." },
    })
    .input(schema.getInput)
    .output(schema.formV1)
    .query(getForm),

  /** A form on any listing. Operator. Errors: RESOURCE_NOT_FOUND. */
  getAny: operatorProcedure.input(schema.getInput).output(inApp.operatorForm).query(getAnyForm),

  /**
   * The form with this public id, the fields of its listing that the guest's page shows, and the link to the operator's privacy
   * notice. For the guest's page and the operator, like the next two. Errors: RESOURCE_NOT_FOUND.
   */
  getByPublicId: guestPageProcedure.input(inApp.byPublicIdInput).output(inApp.guestForm).query(getFormByPublicId),

  /**
   * Sets the numbers of vehicles and pets, as `setParty`, until the form is past COMPLETED. Errors: RESOURCE_NOT_FOUND,
   * VALIDATION_ERROR.
   */
  setPartyByPublicId: guestPageProcedure
    .input(inApp.setPartyByPublicIdInput)
    .output(schema.formV1)
    .mutation(setPartyByPublicId),

  /** Sets the status of a form that is SENT to COMPLETED; again, it changes nothing. Errors: RESOURCE_NOT_FOUND, VALIDATION_ERROR. */
  completeByPublicId: guestPageProcedure
    .input(inApp.byPublicIdInput)
    .output(schema.formV1)
    .mutation(completeByPublicId),

  /**
   * All forms, newest first, or those on one listing, in one user's scope, in one status, with check-in on one day in the
   * listing's time zone, with arrivals of guests who have not registered, or with their last invitation in one state. Operator. Errors: INVALID_CURSOR, VALIDATION_ERROR.
   */
  listAll: operatorProcedure.input(inApp.listAllInput).output(inApp.listedFormPage).query(listAllForms),

  /**
   * Sets a form's status. A user may only move a form in scope to the next stage, or cancel it (gateway/docs/contract.md#status). The
   * operator may set any status and, with `force`, an unknown one, except of a cancelled form. With `from`, it changes only a form in
   * that status. With `dryRun`, it only checks the change, and returns the form as it is.
   * Errors: RESOURCE_NOT_FOUND, VALIDATION_ERROR.
   */
  setStatus: inAppProcedure.input(inApp.setStatusInput).output(schema.formV1).mutation(setStatus),

  /**
   * Sets the numbers of vehicles and pets, within the listing's maxVehicles and allowPets. For the operator, and for users
   * on a form in scope. Errors: RESOURCE_NOT_FOUND, VALIDATION_ERROR.
   */
  setParty: inAppProcedure.input(inApp.setPartyInput).output(schema.formV1).mutation(setParty),
});
