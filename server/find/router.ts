import { operatorProcedure, router } from "../trpc.js";
import { findByText } from "./find.js";
import { findForm } from "./find-form.js";
import * as schema from "./schema.js";

export const findRouter = router({
  /**
   * What a text may mean, exact matches first, at most 10 of each kind: a whole id, also in a Message-ID, its beginning of 8 characters or more, a
   * public id or a guest's link, an external id, an API key or its first 12 characters, the address of a user or a guest, or a part of
   * a listing's or user's name. A guest's address is compared with all that are stored, which is audited with each form that is
   * returned. Operator. Errors: VALIDATION_ERROR.
   */
  byText: operatorProcedure.input(schema.findInput).output(schema.found).mutation(findByText),
  /**
   * The id of the form that has this id or public id, also in a link, else of the only one that has this external id or whose id
   * begins with these 8 characters or more. Operator. Errors: RESOURCE_NOT_FOUND, VALIDATION_ERROR (there are several).
   */
  form: operatorProcedure.input(schema.findFormInput).output(schema.foundForm).query(findForm),
});
