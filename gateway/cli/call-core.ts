import { type Caller, createCaller } from "../../server/caller.js";
import { ServiceError } from "../../server/errors.js";
import { readSettingsWithDatabaseOrDev } from "./environment.js";
import { CommandFailure, type Wording } from "./failure.js";
import { withServices } from "./services.js";

/** Resolves an option's id or email address to a user id. */
export interface FindUser {
  (option: string, given: string): Promise<string>;
  (option: string, given: string | undefined): Promise<string | undefined>;
}

/** Calls the core as the operator. Throws a CommandFailure. */
export const callCore = <Result>(
  call: (core: Caller, findUser: FindUser) => Promise<Result>,
  wording: Wording,
): Promise<Result> =>
  withServices(
    readSettingsWithDatabaseOrDev(),
    (services) => {
      const core = createCaller(services, { kind: "operator" });
      return call(core, findUserBy(core));
    },
    wording,
  );

const findUserBy = (core: Caller) =>
  (async (option: string, given: string | undefined) => {
    if (given === undefined) return undefined;
    try {
      const user = await (given.includes("@") ? core.users.find({ email: given }) : core.users.get({ id: given }));
      return user.id;
    } catch (error) {
      const code = error instanceof ServiceError ? error.serviceCode : undefined;
      if (code !== "RESOURCE_NOT_FOUND" && code !== "VALIDATION_ERROR") throw error;
      throw CommandFailure.ofFields([{ field: option, issue: "no user has this id or email address" }]);
    }
  }) as FindUser;
