import { afterAll } from "vitest";
import { type Caller, createCaller } from "../server/caller.js";
import { readSettings } from "../server/config.js";
import {
  type CallOptions,
  createContext,
  type KeyPrincipal,
  type Principal,
  type Services,
} from "../server/context.js";
import { ServiceError } from "../server/errors.js";
import type { FormBody, FormV1 } from "../server/forms/schema.js";
import type { IssuedKey } from "../server/keys/schema.js";
import type { Listing } from "../server/listings/schema.js";
import type { Membership, User } from "../server/people/schema.js";
import { appRouter } from "../server/router.js";
import { deriveKeyring } from "../server/secrets.js";
import { openServices } from "../server/services.js";
import { createCallerFactory } from "../server/trpc.js";
import { createTestDatabase } from "./harness.js";

export const TEST_SECRET = "a-secret-for-tests-of-more-than-32-characters";

const closers: (() => Promise<void>)[] = [];

// Registered after the harness's own, so run before it drops the databases.
afterAll(async () => {
  await Promise.all(closers.map((close) => close()));
});

/**
 * The core on a database of its own, closed after the test file. `env` are environment variables on top of the
 * defaults; with the DATABASE_URL of other services it is one more process on their database.
 */
export async function openTestServices(env: Record<string, string> = {}): Promise<Services> {
  const url = env.DATABASE_URL ?? (await createTestDatabase()).url;
  const settings = readSettings({
    APP_SECRETS: TEST_SECRET,
    LOG_LEVEL: "silent",
    // Patient, for a machine that runs many tests at once.
    DATABASE_CONNECT_TIMEOUT_MS: "10000",
    DATABASE_STATEMENT_TIMEOUT_MS: "10000",
    DATABASE_LOCK_TIMEOUT_MS: "9000",
    ...env,
    DATABASE_URL: url,
  });
  const { services, close } = await openServices(settings, { warn: () => {} });
  closers.push(close);
  return services;
}

/** The same core with the keys of these secrets, newest first, whatever its database knows. */
export const withSecrets = (services: Services, ...secrets: string[]): Services => ({
  ...services,
  keyring: deriveKeyring(secrets),
});

/** The router as a signed-in user. */
export const asUser = (services: Services, userId: string, options?: CallOptions): Caller =>
  createCaller(services, { kind: "user", userId }, options);

/** The router as the holder of a key that `makeKey` made. */
export const asKey = (services: Services, key: TestKey, options?: CallOptions): Caller =>
  createCaller(services, keyPrincipal(key), options);

/** The router as the operator. */
export const asOperator = (services: Services, options?: CallOptions): Caller =>
  createCaller(services, { kind: "operator" }, options);

/** What authentication makes of a key. */
export const keyPrincipal = ({ id, userId, mode }: TestKey): KeyPrincipal => ({
  kind: "key",
  keyId: id,
  userId,
  mode,
});

let serial = 0;

/** A new user with an address of their own. */
export const makeUser = (
  services: Services,
  overrides: { email?: string; name?: string } = {},
): Promise<User> => asOperator(services).users.create({ email: `user${++serial}@example.com`, ...overrides });

type ListingInput = Parameters<Caller["listings"]["create"]>[0];

/** A new active listing without a limit of guests; `ownerId` becomes its owner. */
export const makeListing = (
  services: Services,
  ownerId: string,
  overrides: Partial<ListingInput> = {},
): Promise<Listing> =>
  asOperator(services).listings.create({
    ownerId,
    title: `Listing ${++serial}`,
    address: "Kanalweg 7",
    city: "Berlin",
    country: "Germany",
    zipCode: "10997",
    timezone: "Europe/Berlin",
    ...overrides,
  });

/** Gives a user a role on a listing, or takes it away. */
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

/** A new key of a user, read-write unless told; `key` is what a client sends. */
export async function makeKey(
  services: Services,
  userId: string,
  overrides: { mode?: KeyPrincipal["mode"]; label?: string; expiresAt?: string } = {},
): Promise<TestKey> {
  const issued = await asOperator(services).keys.issue({ userId, mode: "READ_WRITE", ...overrides });
  return { ...issued, userId };
}

/** A valid body for create or update; the same one for the same arguments. */
export const fixedStay = (listingId: string, overrides: Partial<FormBody> = {}): FormBody => ({
  listingId,
  checkInDate: "2027-07-01T13:00:00.000Z",
  checkOutDate: "2027-07-08T09:00:00.000Z",
  numberOfGuests: 2,
  ...overrides,
});

const HOUR_MS = 3_600_000;

/** A new form that `userId` puts on the listing; a stay of its own unless told, so that it repeats no other. */
export function makeForm(
  services: Services,
  userId: string,
  listingId: string,
  overrides: Partial<FormBody> = {},
): Promise<FormV1> {
  const begin = Date.UTC(2028, 0, 1) + ++serial * HOUR_MS;
  const instants = {
    checkInDate: new Date(begin).toISOString(),
    checkOutDate: new Date(begin + 24 * HOUR_MS).toISOString(),
  };
  return asUser(services, userId).forms.create(fixedStay(listingId, { ...instants, ...overrides }));
}

const factory = createCallerFactory(appRouter);

/** A create that also tells whether it was answered as a repeat. */
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

/** All that a client can tell of a failure. */
export type CaughtServiceError = Pick<
  ServiceError,
  "serviceCode" | "status" | "message" | "errors" | "retryAfter" | "code"
>;

/** What a call was refused with; throws where it was not, or by anything but a ServiceError. */
export async function catchServiceError(call: Promise<unknown>): Promise<CaughtServiceError> {
  const outcome = await call.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  if (!("error" in outcome)) throw new Error(`not refused: ${JSON.stringify(outcome.value)}`);
  if (!(outcome.error instanceof ServiceError)) throw outcome.error;
  const { serviceCode, status, message, errors, retryAfter, code } = outcome.error;
  return { serviceCode, status, message, errors, retryAfter, code };
}

/** The error code of a call that was refused. */
export const catchErrorCode = async (call: Promise<unknown>) => (await catchServiceError(call)).serviceCode;

/** The rejected fields of a call, in order. */
export async function catchRejectedFields(call: Promise<unknown>): Promise<string[]> {
  const { serviceCode, errors = [] } = await catchServiceError(call);
  if (serviceCode !== "VALIDATION_ERROR") throw new Error(`refused with ${serviceCode}`);
  return errors.map(({ field }) => field);
}
