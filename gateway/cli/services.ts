import type { Logger } from "pino";
import type { Services } from "../../server/access/context.js";
import { type Caller, createCaller } from "../../server/caller.js";
import { notFound, ServiceError } from "../../server/errors.js";
import { openServices } from "../../server/services.js";
import { waitAtMost } from "../../server/timeout.js";
import { isUuid } from "../../server/values.js";
import { CLOSE_TIMEOUT_SECONDS } from "../runtime/listening.js";
import { createLog, flushLogs } from "../runtime/log.js";
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

/** Resolves an option, if given, to the id of the user or listing with this external id, id or, for users, email address. */
type Find = <Given extends string | undefined>(option: string, given: Given) => Promise<Given | string>;

export interface Finders {
  findUser: Find;
  findListing: Find;
  /** Resolves a form's id, public id or link to its id. */
  findForm(given: string): Promise<string>;
  /** Resolves a key's id, its first 12 characters or the whole key to its id. */
  findKey(given: string): Promise<string>;
}

/** Calls the core as the operator. Throws a CommandFailure. */
export const callCore = <Result>(
  call: (core: Caller, find: Finders) => Promise<Result>,
  wording: Wording,
): Promise<Result> =>
  withServices(
    readSettingsWithDatabaseOrDev(),
    (services) => {
      const core = createCaller(services, { kind: "operator" });
      return call(core, findersOf(core));
    },
    wording,
  );

const findersOf = (core: Caller): Finders => ({
  findUser: findBy((user) => core.users.find({ user }), "no user has this id, external id or email address"),
  findListing: findBy((listing) => core.listings.find({ listing }), "no listing has this id or external id"),
  async findForm(given) {
    if (isUuid(given)) return given;
    for (const publicId of publicIdsIn(given)) {
      const found = await core.forms.getByPublicId({ publicId }).catch(ignoreNotFound);
      if (found) return found.form.id;
    }
    throw notFound("form");
  },
  findKey: async (key) => (isUuid(key) ? key : (await core.keys.find({ key })).id),
});

/** What may be the public id in a link, which may have it at any place, encoded, or joined to a word. */
function publicIdsIn(link: string): Set<string> {
  const words = link.replaceAll(/%[\da-f]{2}/gi, " ").match(/[\w-]{21,}/g) ?? [];
  return new Set(words.toReversed().flatMap((word) => [word.slice(0, 21), word.slice(-21)]));
}

function ignoreNotFound(error: unknown): undefined {
  if (!(error instanceof ServiceError) || error.serviceCode !== "RESOURCE_NOT_FOUND") throw error;
}

const findBy =
  (find: (reference: string) => Promise<{ id: string }>, issue: string): Find =>
  async (option, given) => {
    if (given === undefined) return given;
    try {
      return (await find(given)).id;
    } catch (error) {
      throw CommandFailure.ofFields([{ field: option, issue: issueOfReference(error, issue) }]);
    }
  };

/** Why a reference is rejected: it finds nothing (`notFound`), finds two, or is malformed. Throws any other error. */
export function issueOfReference(error: unknown, notFound: string): string {
  if (error instanceof ServiceError && error.serviceCode === "RESOURCE_NOT_FOUND") return notFound;
  if (error instanceof ServiceError && error.errors?.[0]) return error.errors[0].issue;
  throw error;
}
