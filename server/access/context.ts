import { randomUUID } from "node:crypto";
import type { z } from "zod";
import type { Settings } from "../config.js";
import type { KeyMode } from "../constants.js";
import type { Db } from "../database/db.js";
import type { StopSignal } from "../database/failures.js";
import type { HolderDb, HolderLimit } from "../database/holder-limit.js";
import type { InFlightCreates } from "../database/in-flight-creates.js";
import type { Reads } from "../database/reads.js";
import type { Keyring } from "../encryption.js";

/** A structured log, such as pino's. */
export interface Log {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

/**
 * What the core needs to run. Created once per process. The released types lack the internal members, because the packages
 * of their types, such as Prisma's client, are not installed with the release.
 */
export interface Services {
  settings: Settings;
  /** @internal */
  db: Db;
  /** @internal */
  reads: Reads;
  /** @internal */
  keyring: Keyring;
  /** @internal */
  holderLimit: HolderLimit;
  /** @internal */
  inFlightCreates: InFlightCreates;
}

/** The services as calls in a scope use them: their statements wait for the key holder's turn. */
export interface HolderServices extends Omit<Services, "db"> {
  /** @internal */
  db: HolderDb;
}

/** An API key: acts for its holder, within its mode. */
export interface KeyPrincipal {
  kind: "key";
  keyId: string;
  userId: string;
  mode: KeyMode;
}

/** A signed-in user of the application: the in-app flow. */
export interface UserPrincipal {
  kind: "user";
  userId: string;
}

/** The operator of the service: the commands and internal tools. Has no scope. */
export interface OperatorPrincipal {
  kind: "operator";
  /** Name given at the sign-in to the console, or of who runs a command; audit entries store it. */
  name?: string;
}

/** The page behind the guests' links: acts on one form at a time, by its public id. */
export interface GuestPrincipal {
  kind: "guest";
}

/** A principal with a scope: the listings on which `userId` is owner or writer. */
export type ScopedPrincipal = KeyPrincipal | UserPrincipal;
/** A principal that does not use the public API. */
export type InAppPrincipal = UserPrincipal | OperatorPrincipal;
/** Who may act on a form by its public id. */
export type GuestPagePrincipal = GuestPrincipal | OperatorPrincipal;
export type Principal = ScopedPrincipal | OperatorPrincipal | GuestPrincipal;

/** One call of the core. */
export interface Context {
  services: Services;
  principal: Principal | null;
  /** UUID in the response, log lines and audit entries of one request. */
  correlationId: string;
  /** The client's Idempotency-Key as sent; creates read it. */
  idempotencyKey: string | undefined;
  /** Set by the call. `replayed`: a create returned the form of an earlier request. */
  outcome: { replayed: boolean };
  /** Aborts when the deadline passes and the caller gets a 503. Start no work after that. */
  signal: StopSignal;
}

type With<Caller extends Principal> = Omit<Context, "principal" | "services"> & {
  principal: Caller;
  services: HolderServices;
};

export type ScopedContext = With<ScopedPrincipal>;
export type InAppContext = With<InAppPrincipal>;
export type GuestPageContext = With<GuestPagePrincipal>;
/** The operator's calls have all services. */
export type OperatorContext = Context & { principal: OperatorPrincipal };

/** What a procedure calls its function with: the context and its input, as the schema has parsed it. */
export interface Call<Schema extends z.ZodType, Caller = Context> {
  ctx: Caller;
  input: z.output<Schema>;
}

export type CallOptions = Partial<Omit<Context, "services" | "principal">>;

export function createContext(services: Services, principal: Principal | null, options: CallOptions = {}): Context {
  return {
    services,
    principal,
    correlationId: options.correlationId ?? randomUUID(),
    idempotencyKey: options.idempotencyKey,
    outcome: options.outcome ?? { replayed: false },
    signal: options.signal ?? NEVER_ABORTED,
  };
}

const NEVER_ABORTED = new AbortController().signal;
