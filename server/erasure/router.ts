import { operatorProcedure, router } from "../trpc.js";
import { eraseUser } from "./erase-user.js";
import { erasePerson, listErasures, reapplyErasures } from "./erasures.js";
import { findPerson } from "./find-person.js";
import * as schema from "./schema.js";

export const peopleRouter = router({
  /**
   * The forms that have a guest's address, ignoring case, and how many stored addresses no secret can decrypt. Reads all addresses.
   * A mutation, because the input of a query would be in the URL. Operator. Errors: VALIDATION_ERROR (malformed address).
   */
  find: operatorProcedure.input(schema.addressInput).output(schema.foundPerson).mutation(findPerson),
  /**
   * Erases a guest's address from all forms and cancels unsent emails to it; users are not changed. Returns a record
   * with which the erasure can be repeated. Operator. Errors: VALIDATION_ERROR (malformed address).
   */
  erase: operatorProcedure.input(schema.addressInput).output(schema.erased).mutation(erasePerson),
  /**
   * Erases a user's personal data: revokes the keys, removes the memberships, then the address, name and external id. The user's
   * id, listings and forms stay. After a failure it can be repeated by id. Operator. Errors: RESOURCE_NOT_FOUND.
   */
  eraseUser: operatorProcedure.input(schema.eraseUserInput).output(schema.erasedUser).mutation(eraseUser),
  /** All erasures on request, oldest first. Operator. Errors: VALIDATION_ERROR. */
  erasures: operatorProcedure.input(schema.listErasuresInput).output(schema.erasures).query(listErasures),
  /**
   * Repeats erasures in a database restored from a backup that is older than them; skips those that it knows. Keeps addresses
   * of forms created after the erasure, because they were given again. Operator. Errors: VALIDATION_ERROR (names the first
   * malformed record; nothing is erased).
   */
  reapply: operatorProcedure.input(schema.reapplyInput).output(schema.reapplied).mutation(reapplyErasures),
});
