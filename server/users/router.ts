import { operatorProcedure, router } from "../trpc.js";
import * as schema from "./schema.js";
import { createUser, findUser, getUser, listUsers, updateUser } from "./store.js";

export const usersRouter = router({
  /** Creates a user. Operator. Errors: VALIDATION_ERROR (the address is malformed, or taken, ignoring case: names that user's id). */
  create: operatorProcedure.input(schema.createUserInput).output(schema.user).mutation(createUser),
  /** A user by id. Operator. Errors: RESOURCE_NOT_FOUND. */
  get: operatorProcedure.input(schema.getUserInput).output(schema.user).query(getUser),
  /** A user by external id, id or email address, ignoring its case. Operator. Errors: RESOURCE_NOT_FOUND. */
  find: operatorProcedure.input(schema.findUserInput).output(schema.user).query(findUser),
  /** All users, newest first. Operator. Errors: INVALID_CURSOR, VALIDATION_ERROR. */
  list: operatorProcedure.input(schema.listUsersInput).output(schema.userPage).query(listUsers),
  /** Changes the given fields. Operator. Errors: RESOURCE_NOT_FOUND, VALIDATION_ERROR (as `create`). */
  update: operatorProcedure.input(schema.updateUserInput).output(schema.user).mutation(updateUser),
});
