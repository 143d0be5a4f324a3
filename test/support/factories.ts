import { setTimeout } from "node:timers/promises";
import {
  type CallOptions,
  createContext,
  type KeyPrincipal,
  type Principal,
  type Services,
} from "../../server/access/context.js";
import { type Caller, createCaller } from "../../server/caller.js";
import { readSettings } from "../../server/config.js";
import { deriveKeyring } from "../../server/encryption.js";
import { ServiceError } from "../../server/errors.js";
import type { FormBody, FormV1 } from "../../server/forms/schema.js";
import type { IssuedKey } from "../../server/keys/schema.js";
import type { Listing } from "../../server/listings/schema.js";
import type { Membership } from "../../server/memberships/schema.js";
import { appRouter } from "../../server/router.js";
import { openServices } from "../../server/services.js";
import { createCallerFactory } from "../../server/trpc.js";
import type { User } from "../../server/users/schema.js";
import { afterFile } from "./after-file.js";
import { createTestDatabase, LONG_DATABASE_TIMEOUTS } from "./database.js";
import { fixedStay } from "./stays.js";

export const TEST_SECRET = "a-secret-for-tests-of-more-than-32-characters";

/**
 * Opens the core, by default on a new database, and closes it after the test file. `env` overrides settings. With the
 * DATABASE_URL of other services it acts as another process on their database.
 */
export async function openTestServices(env: Record<string, string> = {}): Promise<Services> {
  const url = env.DATABASE_URL ?? (await createTestDatabase()).url;
  const settings = readSettings({
    APP_SECRETS: TEST_SECRET,
    LOG_LEVEL: "silent",
    ...LONG_DATABASE_TIMEOUTS,
    ...env,
    DATABASE_URL: url,
  });
  const { services, close } = await openServices(settings, { warn: () => {} });
  afterFile(close);
  return services;
}

/** Returns the core with keys derived from these secrets, newest first, without checking them against the database. */
export const withSecrets = (services: Services, ...secrets: string[]): Services => ({
  ...services,
  keyring: deriveKeyring(secrets),
});

/** Calls procedures as a signed-in user. */
export const asUser = (services: Services, userId: string, options?: CallOptions): Caller =>
  createCaller(services, { kind: "user", userId }, options);

/** Calls procedures with an API key from `makeKey`. */
export const asKey = (services: Services, key: TestKey, options?: CallOptions): Caller =>
  createCaller(services, keyPrincipal(key), options);

/** Calls procedures as the operator. */
export const asOperator = (services: Services, options?: CallOptions): Caller =>
  createCaller(services, { kind: "operator" }, options);

/** Returns the unsent emails, at most 100. */
export const listEmails = async (services: Services) => (await asOperator(services).emails.list({ limit: 100 })).items;

/** Returns the principal that a request with this key has. */
export const keyPrincipal = ({ id, userId, mode }: TestKey): KeyPrincipal => ({
  kind: "key",
  keyId: id,
  userId,
  mode,
});

let serial = 0;

/**
 * Resolves when anything made afterwards has a later `createdAt`: what was made in the same millisecond is listed in the order of
 * its ids, which are random.
 */
async function withOwnMillisecond<Made>(making: Promise<Made>): Promise<Made> {
  const made = await making;
  await setTimeout(2);
  return made;
}

/** Creates a user with a unique address. */
export const makeUser = (services: Services, overrides: { email?: string; name?: string } = {}): Promise<User> =>
  withOwnMillisecond(asOperator(services).users.create({ email: `user${++serial}@example.com`, ...overrides }));

type ListingInput = Parameters<Caller["listings"]["create"]>[0];

/** Creates an active listing without a guest limit. `ownerId` becomes its owner. */
export const makeListing = (
  services: Services,
  ownerId: string,
  overrides: Partial<ListingInput> = {},
): Promise<Listing> =>
  withOwnMillisecond(
    asOperator(services).listings.create({
      ownerId,
      title: `Listing ${++serial}`,
      address: "Kanalweg 7",
      city: "Berlin",
      country: "Germany",
      zipCode: "10997",
      timezone: "Europe/Berlin",
      ...overrides,
    }),
  );

/** Sets a user's role on a listing. NONE removes the membership. */
export function setRole(
  services: Services,
  listingId: string,
  userId: string,
  role: "OWNER" | "WRITER" | "READER" | "NONE",
): Promise<Membership> {
  const { members } = asOperator(services);
  return role === "NONE" ? members.remove({ listingId, userId }) : members.set({ listingId, userId, role });
}

export interface TestKey extends IssuedKey {
  userId: string;
}

/** Issues a key to a user, read-write by default. `key` is what a client sends. */
export async function makeKey(
  services: Services,
  userId: string,
  overrides: { mode?: KeyPrincipal["mode"]; label?: string; expiresAt?: string } = {},
): Promise<TestKey> {
  const issued = await withOwnMillisecond(
    asOperator(services).keys.issue({ userId, mode: "READ_WRITE", ...overrides }),
  );
  return { ...issued, userId };
}

const HOUR_MS = 3_600_000;

/** Creates a form as `userId`. The dates are unique by default, so it is never a replay. */
export function makeForm(
  services: Services,
  userId: string,
  listingId: string,
  overrides: Partial<FormBody> = {},
): Promise<FormV1> {
  const checkInMs = Date.UTC(2028, 0, 1) + ++serial * HOUR_MS;
  const dates = {
    checkInDate: new Date(checkInMs).toISOString(),
    checkOutDate: new Date(checkInMs + 24 * HOUR_MS).toISOString(),
  };
  return withOwnMillisecond(asUser(services, userId).forms.create(fixedStay(listingId, { ...dates, ...overrides })));
}

const factory = createCallerFactory(appRouter);

/** Calls a procedure by its path, with any input. */
export function callProcedure(
  services: Services,
  path: string,
  principal: Principal | null,
  input: unknown,
): Promise<unknown> {
  const [group = "", name = ""] = path.split(".");
  type Procedures = Record<string, (input: unknown) => Promise<unknown>>;
  const caller = factory(createContext(services, principal)) as unknown as Record<string, Procedures>;
  const procedure = caller[group]?.[name];
  if (!procedure) throw new Error(`no procedure ${path}`);
  return procedure(input);
}

/** Creates a form and returns whether the response was a replay. */
export async function createFormWithOutcome(
  services: Services,
  principal: Principal | null,
  body: FormBody,
  options: CallOptions = {},
): Promise<{ form: FormV1; replayed: boolean }> {
  const context = createContext(services, principal, options);
  const form = await factory(context).forms.create(body);
  return { form, replayed: context.outcome.replayed };
}

/** Returns all that a client can see of the ServiceError of a call. Throws if it succeeds or fails with another error. */
export async function catchServiceError(call: Promise<unknown>) {
  const outcome = await call.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  if (!("error" in outcome)) throw new Error(`the call succeeded: ${JSON.stringify(outcome.value)}`);
  if (!(outcome.error instanceof ServiceError)) throw outcome.error;
  const { serviceCode, status, message, errors, retryAfter, location, code } = outcome.error;
  return { serviceCode, status, message, errors, retryAfter, location, code };
}

/** Returns the error code of a call that must fail. */
export const catchErrorCode = async (call: Promise<unknown>) => (await catchServiceError(call)).serviceCode;

/** Returns the rejected fields of a call that must fail with VALIDATION_ERROR, in order. */
export async function catchRejectedFields(call: Promise<unknown>): Promise<string[]> {
  const { serviceCode, errors = [] } = await catchServiceError(call);
  if (serviceCode !== "VALIDATION_ERROR") throw new Error(`failed with ${serviceCode}`);
  return errors.map(({ field }) => field);
}
