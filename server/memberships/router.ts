import { operatorProcedure, router } from "../trpc.js";
import * as schema from "./schema.js";
import { listMembers, removeMember, setMember } from "./store.js";

export const membersRouter = router({
  /**
   * Sets a user's role on a listing, replacing any previous one; takes seconds on a listing with many forms. Operator. Errors:
   * VALIDATION_ERROR (no such user or listing).
   */
  set: operatorProcedure.input(schema.setMemberInput).output(schema.membership).mutation(setMember),
  /** Removes a user's role on a listing. Operator. Errors: RESOURCE_NOT_FOUND. */
  remove: operatorProcedure.input(schema.removeMemberInput).output(schema.membership).mutation(removeMember),
  /**
   * Members of a listing, or memberships of a user, oldest listing first; empty if there is no such listing or user. Operator.
   * Errors: INVALID_CURSOR, VALIDATION_ERROR.
   */
  list: operatorProcedure.input(schema.listMembersInput).output(schema.memberPage).query(listMembers),
});
