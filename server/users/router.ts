import { operatorProcedure, router } from "../trpc.js";
import * as schema from "./schema.js";
import { createUser, findUserByEmail, getUser, listUsers } from "./store.js";

export const usersRouter = router({
  /** Creates a user. Operator. Errors: VALIDATION_ERROR (the address is malformed, or taken, ignoring case: names that user's id). */
  create: operatorProcedure.input(schema.createUserInput).output(schema.user).mutation(createUser),
  /** A user by id. Operator. Errors: RESOURCE_NOT_FOUND. */
  get: operatorProcedure.input(schema.getUserInput).output(schema.user).query(getUser),
  /** A user by email address, ignoring case. Operator. Errors: RESOURCE_NOT_FOUND. */
  find: operatorProcedure.input(schema.findUserInput).output(schema.user).query(findUserByEmail),
  /** All users, newest first. Operator. Errors: INVALID_CURSOR, VALIDATION_ERROR. */
  list: operatorProcedure.input(schema.listUsersInput).output(schema.userPage).query(listUsers),
});
