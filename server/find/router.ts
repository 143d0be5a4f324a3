import { operatorProcedure, router } from "../trpc.js";
import { findByText } from "./find.js";
import { findForm } from "./find-form.js";
import * as schema from "./schema.js";

export const findRouter = router({
  /**
   * What a text may mean, exact matches first, at most 10 of each kind: a whole id, also in a Message-ID, its first 8 characters, a
   * public id or a guest's link, an external id, an API key or its first 12 characters, a user's address, or a part of a listing's
   * or user's name. A mutation, because the input of a query would be in the URL. Operator. Errors: VALIDATION_ERROR.
   */
  byText: operatorProcedure.input(schema.findInput).output(schema.found).mutation(findByText),
  /**
   * The id of the form that has this id, external id or public id, or whose id begins with these 8 characters or more; also in a
   * link. Operator. Errors: RESOURCE_NOT_FOUND, VALIDATION_ERROR (there are several).
   */
  form: operatorProcedure.input(schema.findFormInput).output(schema.foundForm).query(findForm),
});
