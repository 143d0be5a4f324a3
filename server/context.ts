import { randomUUID } from "node:crypto";
import type { Settings } from "./config.js";
import type { Db } from "./db.js";
import type { StopSignal } from "./failures.js";
import type { Keyring } from "./secrets.js";

/** What the core needs to run; made once a process. */
export interface Services {
  db: Db;
  keyring: Keyring;
  settings: Settings;
}

/** An API key: acts for its holder, within its mode. */
export interface KeyPrincipal {
  kind: "key";
  keyId: string;
  userId: string;
  mode: "READ_WRITE" | "READ_ONLY";
}

/** A signed-in user of the application: the in-app flow. */
export interface UserPrincipal {
  kind: "user";
  userId: string;
}

/** The operator of the service: the commands and internal tools. Has no listings of its own. */
export interface OperatorPrincipal {
  kind: "operator";
}

/** Whoever has a scope: the listings on which `userId` is owner or writer. */
export type ScopedPrincipal = KeyPrincipal | UserPrincipal;
/** Whoever acts inside the application rather than through its public interface. */
export type InAppPrincipal = UserPrincipal | OperatorPrincipal;
export type Principal = ScopedPrincipal | OperatorPrincipal;

/** One call of the core. */
export interface Context {
  services: Services;
  principal: Principal | null;
  /** Ties the answer, the log lines and the audit rows of one request together; a UUID. */
  correlationId: string;
  /** The client's Idempotency-Key; read by `forms.create` alone. */
  idempotencyKey: string | undefined;
  /** Told about the answer beside its body. */
  outcome: { replayed: boolean };
  /** Aborts when the caller has been told to retry: nothing further may be begun. */
  signal: StopSignal;
}

/** A call by somebody with a scope. */
export type ScopedContext = Context & { principal: ScopedPrincipal };
/** A call from inside the application. */
export type InAppContext = Context & { principal: InAppPrincipal };

export interface CallOptions {
  correlationId?: string;
  idempotencyKey?: string | undefined;
  /** Filled in by the call: `replayed` tells that a create was answered with an earlier request's form. */
  outcome?: { replayed: boolean };
  signal?: StopSignal;
}

export function createContext(
  services: Services,
  principal: Principal | null,
  options: CallOptions = {},
): Context {
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
