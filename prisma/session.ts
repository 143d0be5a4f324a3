import pg from "pg";
import { withOptions } from "./session-options.js";

/** Set in every session to detect a pooler, which drops it. Session locks do not work through a pooler. */
export const SESSION_MARKER = "guest_forms.session";

/**
 * How long a statement of a migration waits for a lock. Requests queue behind it meanwhile, so this bounds how much a
 * migration delays them.
 */
const LOCK_TIMEOUT_MS = 200;

// The role's timeouts must not interrupt a migration.
const SETTINGS = {
  timezone: "UTC",
  statement_timeout: "0",
  idle_in_transaction_session_timeout: "0",
  lock_timeout: `${LOCK_TIMEOUT_MS}`,
  [SESSION_MARKER]: "own",
};

const CONNECT_TIMEOUT_MS = 10_000;

/**
 * A pool of exactly one connection, so its session holds a lock until all work is done. This includes a statement that still
 * runs after the client was killed: the server finishes it before it releases the lock. A lost connection is not reopened.
 */
export function openSession(connectionString: string): pg.Pool {
  let opened = false;
  const session = new pg.Pool({
    ...withOptions(connectionString, SETTINGS),
    max: 1,
    idleTimeoutMillis: 0,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    application_name: "guest-forms migrate",
    verify(_client, done) {
      done(opened ? new Error("the connection was lost") : undefined);
      opened = true;
    },
  });
  // The next query rejects. Without listeners, losing the connection would crash the process.
  session.on("error", () => {});
  session.on("connect", (client) => client.on("error", () => {}));
  // pg's `Pool.query` closes the connection after any error, such as a missing table.
  const query = async (...args: [pg.QueryArrayConfig]) => {
    const client = await session.connect();
    try {
      return mapCharTypes(await client.query(...args));
    } finally {
      client.release();
    }
  };
  return Object.assign(session, { query });
}

/** Postgres's internal type "char" is unknown to Prisma's adapter; its array type is supported. */
const CHAR = 18;
const CHAR_ARRAY = 1002;

function mapCharTypes<Result extends pg.QueryArrayResult>(result: Result): Result {
  for (const field of result.fields ?? []) {
    if (field.dataTypeID === CHAR) field.dataTypeID = CHAR_ARRAY;
  }
  return result;
}
