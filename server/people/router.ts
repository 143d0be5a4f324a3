import { operatorProcedure, router } from "../trpc.js";
import { erasePerson } from "./erase.js";
import { listErasures } from "./erasures.js";
import { listMembers, listUsers } from "./lists.js";
import { reapplyErasures } from "./reapply.js";
import {
  createUserInput,
  erased,
  eraseInput,
  erasures,
  findUserInput,
  getUserInput,
  listErasuresInput,
  listMembersInput,
  listUsersInput,
  memberPage,
  membership,
  reapplied,
  reapplyInput,
  removeMemberInput,
  setMemberInput,
  user,
  userPage,
} from "./schema.js";
import { createUser, findUserByEmail, getUser, removeMember, setMember } from "./store.js";

export const usersRouter = router({
  /** Creates a user. Operator. Errors: VALIDATION_ERROR (the address is malformed, or taken; names the user's id). */
  create: operatorProcedure
    .input(createUserInput)
    .output(user)
    .mutation(({ ctx, input }) => createUser(ctx, input)),
  /** A user by id. Operator. Errors: RESOURCE_NOT_FOUND. */
  get: operatorProcedure
    .input(getUserInput)
    .output(user)
    .query(({ ctx, input }) => getUser(ctx, input.id)),
  /** A user by email address, ignoring case. Operator. Errors: RESOURCE_NOT_FOUND. */
  find: operatorProcedure
    .input(findUserInput)
    .output(user)
    .query(({ ctx, input }) => findUserByEmail(ctx, input.email)),
  /** All users, newest first. Operator. Errors: INVALID_CURSOR, VALIDATION_ERROR. */
  list: operatorProcedure
    .input(listUsersInput)
    .output(userPage)
    .query(({ ctx, input }) => listUsers(ctx, input)),
});

export const membersRouter = router({
  /** Sets a user's role on a listing. Operator. Errors: VALIDATION_ERROR (no such user or listing). */
  set: operatorProcedure
    .input(setMemberInput)
    .output(membership)
    .mutation(({ ctx, input }) => setMember(ctx, input)),
  /** Removes a user's role on a listing. Operator. Errors: RESOURCE_NOT_FOUND. */
  remove: operatorProcedure
    .input(removeMemberInput)
    .output(membership)
    .mutation(({ ctx, input }) => removeMember(ctx, input)),
  /**
   * Members of a listing, or memberships of a user; empty if there is no such listing or user. Operator.
   * Errors: INVALID_CURSOR, VALIDATION_ERROR.
   */
  list: operatorProcedure
    .input(listMembersInput)
    .output(memberPage)
    .query(({ ctx, input }) => listMembers(ctx, input)),
});

export const peopleRouter = router({
  /**
   * Erases a guest's address from all forms and cancels unsent notifications to it; users are not changed. Returns a record
   * with which the erasure can be repeated. Operator. Errors: VALIDATION_ERROR (malformed address).
   */
  erase: operatorProcedure
    .input(eraseInput)
    .output(erased)
    .mutation(({ ctx, input }) => erasePerson(ctx, input.email)),
  /** All erasures on request, oldest first. Operator. Errors: VALIDATION_ERROR. */
  erasures: operatorProcedure
    .input(listErasuresInput)
    .output(erasures)
    .query(({ ctx, input }) => listErasures(ctx, input.since)),
  /**
   * Repeats erasures that a restored database does not know. Operator. Errors: VALIDATION_ERROR (names the first malformed
   * record; nothing is erased).
   */
  reapply: operatorProcedure
    .input(reapplyInput)
    .output(reapplied)
    .mutation(({ ctx, input }) => reapplyErasures(ctx, input.records)),
});
