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
  const fields = error as Record<string, unknown>;
  const own = {
    codes: [fields.code, fields.originalCode, fields.kind, fields.constraint].filter(isString),
    messages: [fields.originalMessage, fields.message].filter(isString),
    isFatal: fields.severity === "FATAL" || fields.severity === "PANIC",
    isConnecting: fields.syscall === "connect" || fields.syscall === "getaddrinfo",
  };
  const inner = [
    fields.cause,
    fields.meta,
    fields.driverAdapterError,
    ...(Array.isArray(fields.errors) ? fields.errors : []),
  ];
  return [own, ...inner.flatMap((part) => factsOf(part, depth + 1))];
}

const isString = (value: unknown) => typeof value === "string";
