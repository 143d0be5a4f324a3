import { operatorProcedure, readingProcedure, router } from "../trpc.js";
import * as schema from "./schema.js";
import {
  createListing,
  findListing,
  getAnyListing,
  getListing,
  listAllListings,
  listListings,
  updateListing,
} from "./store.js";

export const listingsRouter = router({
  /**
   * Listings in scope, oldest first. One that enters the scope may sort before cursors already returned. Errors:
   * INVALID_CURSOR, VALIDATION_ERROR.
   */
  list: readingProcedure
    .meta({
      openapi: {
        method: "GET",
        path: "/v1/listings",
        operationId: "listListings",
        tags: ["Listings"],
        summary: "List listings",
        description: "Returns the listings in the key's scope, sorted by (createdAt, id), oldest first.",
        successDescription: "A page of listings.",
      },
      status: 200,
      codes: ["INVALID_CURSOR", "VALIDATION_ERROR"],
      when: {
        INVALID_CURSOR: "This endpoint has not returned the cursor.",
        VALIDATION_ERROR: "A parameter is wrong or unknown.",
      },
      example: { limit: 20 },
    })
    .input(schema.listInput)
    .output(schema.listingPage)
    .query(listListings),

  /** A listing in scope. Errors: RESOURCE_NOT_FOUND. */
  get: readingProcedure
    .meta({
      openapi: {
        method: "GET",
        path: "/v1/listings/{id}",
        operationId: "getListing",
        tags: ["Listings"],
        summary: "Fetch listing",
        description:
          "Returns a listing by its id. A listing out of scope gives the same 404 as one that does not exist.",
        successDescription: "The listing.",
      },
      status: 200,
      codes: ["RESOURCE_NOT_FOUND"],
      when: { RESOURCE_NOT_FOUND: "The listing does not exist or is out of the key's scope." },
    })
    .input(schema.getInput)
    .output(schema.listing)
    .query(getListing),

  /** Any listing. Operator. Errors: RESOURCE_NOT_FOUND. */
  getAny: operatorProcedure.input(schema.getInput).output(schema.operatorListing).query(getAnyListing),

  /** A listing by external id or id. Operator. Errors: RESOURCE_NOT_FOUND. */
  find: operatorProcedure.input(schema.findInput).output(schema.operatorListing).query(findListing),

  /**
   * All listings, or those in one user's scope, newest first; with `search`, those whose title, city or external id contains it,
   * ignoring case. Operator. Errors: INVALID_CURSOR, VALIDATION_ERROR.
   */
  listAll: operatorProcedure.input(schema.listAllInput).output(schema.operatorListingPage).query(listAllListings),

  /** Creates a listing and its owner's membership. Operator. Errors: VALIDATION_ERROR. */
  create: operatorProcedure.input(schema.createInput).output(schema.operatorListing).mutation(createListing),

  /** Changes the given fields of a listing, not its forms, even if they now break its rules. Operator. Errors: RESOURCE_NOT_FOUND, VALIDATION_ERROR. */
  update: operatorProcedure.input(schema.updateInput).output(schema.operatorListing).mutation(updateListing),

  /** Sets `active` to false: no new forms on the listing. Operator. Errors: RESOURCE_NOT_FOUND. */
  deactivate: operatorProcedure
    .input(schema.deactivateInput)
    .output(schema.operatorListing)
    .mutation(({ ctx, input }) => updateListing({ ctx, input: { ...input, active: false } })),
});
