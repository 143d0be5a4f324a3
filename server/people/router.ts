import { operatorProcedure, router } from "../trpc.js";
import { erasePerson } from "./erase.js";
import { listMembers, listUsers } from "./lists.js";
import {
  createUserInput,
  erased,
  eraseInput,
  findUserInput,
  getUserInput,
  listMembersInput,
  listUsersInput,
  memberPage,
  membership,
  removeMemberInput,
  setMemberInput,
  user,
  userPage,
} from "./schema.js";
import { createUser, findUserByEmail, getUser, removeMember, setMember } from "./store.js";

export const usersRouter = router({
  /** Makes a user. Operator. Errors: VALIDATION_ERROR (the address is malformed, or taken: by whom). */
  create: operatorProcedure
    .input(createUserInput)
    .output(user)
    .mutation(({ ctx, input }) => createUser(ctx, input)),
  /** A user by id. Operator. Errors: RESOURCE_NOT_FOUND. */
  get: operatorProcedure
    .input(getUserInput)
    .output(user)
    .query(({ ctx, input }) => getUser(ctx, input.id)),
  /** A user by e-mail address, in whatever case. Operator. Errors: RESOURCE_NOT_FOUND. */
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
  /** Gives a user a role on a listing. Operator. Errors: VALIDATION_ERROR (no such user or listing). */
  set: operatorProcedure
    .input(setMemberInput)
    .output(membership)
    .mutation(({ ctx, input }) => setMember(ctx, input)),
  /** Takes a user's role on a listing away. Operator. Errors: RESOURCE_NOT_FOUND. */
  remove: operatorProcedure
    .input(removeMemberInput)
    .output(membership)
    .mutation(({ ctx, input }) => removeMember(ctx, input)),
  /**
   * Who has which role on a listing, or which roles a user has; empty if there is no such listing or user. Operator.
   * Errors: INVALID_CURSOR, VALIDATION_ERROR.
   */
  list: operatorProcedure
    .input(listMembersInput)
    .output(memberPage)
    .query(({ ctx, input }) => listMembers(ctx, input)),
});

export const peopleRouter = router({
  /**
   * Erases a guest's address from all forms, and what waits to be sent to it; users are not touched. Operator.
   * Errors: VALIDATION_ERROR (no address).
   */
  erase: operatorProcedure
    .input(eraseInput)
    .output(erased)
    .mutation(({ ctx, input }) => erasePerson(ctx, input.email)),
});
