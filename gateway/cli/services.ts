import type { Logger } from "pino";
import type { Services } from "../../server/access/context.js";
import { type Caller, createCaller } from "../../server/caller.js";
import { ServiceError } from "../../server/errors.js";
import { openServices } from "../../server/services.js";
import { waitAtMost } from "../../server/timeout.js";
import { isUuid } from "../../server/values.js";
import { CLOSE_TIMEOUT_SECONDS } from "../runtime/listening.js";
import { createLog, flushLogs } from "../runtime/log.js";
import { operatorOf, readSettingsWithDatabaseOrDev, type SettingsWithDatabase } from "./environment.js";
import { CommandFailure, explain, type Wording } from "./failure.js";

/** Runs `work` with the services open. Throws a CommandFailure. */
export async function withServices<Result>(
  settings: SettingsWithDatabase,
  work: (services: Services, log: Logger) => Promise<Result>,
  wording: Wording = {},
): Promise<Result> {
  const log = createLog(settings.LOG_LEVEL);
  try {
    const { services, close } = await openServices({ ...settings, DATABASE_REPLICA_URL: undefined }, log);
    return await work(services, log).finally(() => waitAtMost(CLOSE_TIMEOUT_SECONDS, close()));
  } catch (error) {
    throw explain(error, { databaseUrl: settings.DATABASE_URL, wording });
  } finally {
    await flushLogs();
  }
}

/** Calls the core as the operator. Throws a CommandFailure. */
export const callCore = <Result>(
  call: (core: Caller, find: Finders) => Promise<Result>,
  wording: Wording,
): Promise<Result> => {
  const settings = readSettingsWithDatabaseOrDev();
  return withServices(
    settings,
    (services) => {
      const core = createCaller(services, { kind: "operator", name: operatorOf(settings) });
      return call(core, findersOf(core));
    },
    wording,
  );
};

export type Finders = ReturnType<typeof findersOf>;

/** Each returns the id of what has the given id, external id, address, public id, link or beginning. */
function findersOf(core: Caller) {
  const user = async (given: string) => (await core.users.find({ user: given })).id;
  const listing = async (given: string) => (await core.listings.find({ listing: given })).id;
  return {
    user,
    listing,
    userOption: ofOption(user, "no user has this id, external id or email address"),
    listingOption: ofOption(listing, "no listing has this id or external id"),
    async form(given: string): Promise<string> {
      const found = await core.find.form({ form: given }).catch((error) => {
        // The trail of a form that was deleted can be read.
        if (isUuid(given) && isNotFound(error)) return undefined;
        throw error;
      });
      return found?.id ?? given;
    },
    key: async (key: string): Promise<string> => (isUuid(key) ? key : (await core.keys.find({ key })).id),
  };
}

const isNotFound = (error: unknown) => error instanceof ServiceError && error.serviceCode === "RESOURCE_NOT_FOUND";

/** Errors name the option. */
const ofOption =
  (find: (given: string) => Promise<string>, issue: string) =>
  async (given: string, option: string): Promise<string> => {
    try {
      return await find(given);
    } catch (error) {
      throw CommandFailure.ofFields([{ field: option, issue: issueOfReference(error, issue) }]);
    }
  };

/** Why a reference is rejected: it finds nothing (`notFound`), finds two, or is malformed. Throws any other error. */
export function issueOfReference(error: unknown, notFound: string): string {
  if (isNotFound(error)) return notFound;
  if (error instanceof ServiceError && error.errors?.[0]) return error.errors[0].issue;
  throw error;
}
