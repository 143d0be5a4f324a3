import { operatorProcedure, router } from "../trpc.js";
import { erasePerson, listErasures, reapplyErasures } from "./erasures.js";
import * as schema from "./schema.js";

export const peopleRouter = router({
  /**
   * Erases a guest's address from all forms and cancels unsent notifications to it; users are not changed. Returns a record
   * with which the erasure can be repeated. Operator. Errors: VALIDATION_ERROR (malformed address).
   */
  erase: operatorProcedure.input(schema.eraseInput).output(schema.erased).mutation(erasePerson),
  /** All erasures on request, oldest first. Operator. Errors: VALIDATION_ERROR. */
  erasures: operatorProcedure.input(schema.listErasuresInput).output(schema.erasures).query(listErasures),
  /**
   * Repeats erasures in a database restored from a backup that is older than them; skips those that it knows. Keeps addresses
   * of forms created after the erasure, because they were given again. Operator. Errors: VALIDATION_ERROR (names the first
   * malformed record; nothing is erased).
   */
  reapply: operatorProcedure.input(schema.reapplyInput).output(schema.reapplied).mutation(reapplyErasures),
});
