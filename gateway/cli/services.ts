import type { Logger } from "pino";
import type { Services } from "../../server/access/context.js";
import { type Caller, createCaller } from "../../server/caller.js";
import { ServiceError } from "../../server/errors.js";
import { openServices } from "../../server/services.js";
import { waitAtMost } from "../../server/timeout.js";
import { CLOSE_TIMEOUT_SECONDS } from "../process/listening.js";
import { createLog, flushLogs } from "../process/log.js";
import { readSettingsWithDatabaseOrDev, type SettingsWithDatabase } from "./environment.js";
import { CommandFailure, explain, type Wording } from "./failure.js";

/** Runs `work` with the services open. Throws a CommandFailure. */
export async function withServices<Result>(
  settings: SettingsWithDatabase,
  work: (services: Services, log: Logger) => Promise<Result>,
  wording: Wording = {},
): Promise<Result> {
  const log = createLog(settings.LOG_LEVEL);
  try {
    const { services, close } = await openServices(settings, log);
    return await work(services, log).finally(() => waitAtMost(CLOSE_TIMEOUT_SECONDS, close()));
  } catch (error) {
    throw explain(error, { databaseUrl: settings.DATABASE_URL, wording });
  } finally {
    await flushLogs();
  }
}

/** Resolves an option's id or email address, if given, to a user id. */
export type FindUser = <Given extends string | undefined>(option: string, given: Given) => Promise<Given | string>;

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

const findUserBy =
  (core: Caller): FindUser =>
  async (option, given) => {
    if (given === undefined) return given;
    try {
      const user = await (given.includes("@") ? core.users.find({ email: given }) : core.users.get({ id: given }));
      return user.id;
    } catch (error) {
      const code = error instanceof ServiceError ? error.serviceCode : undefined;
      if (code !== "RESOURCE_NOT_FOUND" && code !== "VALIDATION_ERROR") throw error;
      throw CommandFailure.ofFields([{ field: option, issue: "no user has this id or email address" }]);
    }
  };
