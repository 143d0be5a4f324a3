/** What is known about an error, whether it comes from pg, Prisma or its adapter. */
export interface ErrorFacts {
  /** Error codes, and the name of the violated constraint. */
  codes: string[];
  /** The database's own message first. */
  messages: string[];
  /** Postgres refused or closed the connection. */
  isFatal: boolean;
  /** The operating system could not connect. */
  isConnecting: boolean;
}

const MAX_DEPTH = 5;

/** Returns the facts of an error and of the errors it wraps, outermost first. */
export function factsOf(error: unknown, depth = 0): ErrorFacts[] {
  if (typeof error !== "object" || error === null || depth > MAX_DEPTH) return [];
  const of = error as Record<string, unknown>;
  const own = {
    codes: [of.code, of.originalCode, of.kind, of.constraint].filter(isString),
    messages: [of.originalMessage, of.message].filter(isString),
    isFatal: of.severity === "FATAL" || of.severity === "PANIC",
    isConnecting: of.syscall === "connect" || of.syscall === "getaddrinfo",
  };
  const inner = [of.cause, of.meta, of.driverAdapterError, ...(Array.isArray(of.errors) ? of.errors : [])];
  return [own, ...inner.flatMap((part) => factsOf(part, depth + 1))];
}

const isString = (value: unknown) => typeof value === "string";
