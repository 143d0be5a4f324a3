import type { Caller } from "../../server/caller.js";
import { ServiceError } from "../../server/errors.js";
import { CommandFailure } from "./failure.js";

/** Resolves an option's id or email address to a user id. */
export type FindUser = (option: string, given: string) => Promise<string>;

export const findUserBy =
  (core: Caller): FindUser =>
  async (option, given) => {
    try {
      const user = await (given.includes("@")
        ? core.users.find({ email: given })
        : core.users.get({ id: given }));
      return user.id;
    } catch (error) {
      const code = error instanceof ServiceError ? error.serviceCode : undefined;
      if (code !== "RESOURCE_NOT_FOUND" && code !== "VALIDATION_ERROR") throw error;
      throw CommandFailure.ofFields([{ field: option, issue: "no user has this id or email address" }]);
    }
  };
