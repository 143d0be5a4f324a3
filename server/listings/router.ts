import { operatorProcedure, readingProcedure, router } from "../trpc.js";
import { createListing } from "./create.js";
import { getAnyListing, getListing, listAllListings, listListings } from "./queries.js";
import {
  createInput,
  deactivateInput,
  getInput,
  listAllInput,
  listInput,
  listing,
  listingPage,
  updateInput,
} from "./schema.js";
import { updateListing } from "./update.js";

export const listingsRouter = router({
  /** Listings in scope, oldest first. */
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
      example: { limit: 20 },
    })
    .input(listInput)
    .output(listingPage)
    .query(({ ctx, input }) => listListings(ctx, input)),

  /** One listing. */
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
    })
    .input(getInput)
    .output(listing)
    .query(({ ctx, input }) => getListing(ctx, input.id)),

  /** Any listing. Operator. Errors: RESOURCE_NOT_FOUND. */
  getAny: operatorProcedure
    .input(getInput)
    .output(listing)
    .query(({ ctx, input }) => getAnyListing(ctx, input.id)),

  /** All listings, or those in one user's scope, newest first. Operator. Errors: INVALID_CURSOR, VALIDATION_ERROR. */
  listAll: operatorProcedure
    .input(listAllInput)
    .output(listingPage)
    .query(({ ctx, input }) => listAllListings(ctx, input)),

  /** Creates a listing and its owner's membership. Operator. Errors: VALIDATION_ERROR. */
  create: operatorProcedure
    .input(createInput)
    .output(listing)
    .mutation(({ ctx, input }) => createListing(ctx, input)),

  /** Changes the given fields of a listing. Operator. Errors: RESOURCE_NOT_FOUND, VALIDATION_ERROR. */
  update: operatorProcedure
    .input(updateInput)
    .output(listing)
    .mutation(({ ctx, input: { id, ...change } }) => updateListing(ctx, id, change)),

  /** Sets `active` to false: no new forms on the listing. Operator. Errors: RESOURCE_NOT_FOUND. */
  deactivate: operatorProcedure
    .input(deactivateInput)
    .output(listing)
    .mutation(({ ctx, input }) => updateListing(ctx, input.id, { active: false })),
});
