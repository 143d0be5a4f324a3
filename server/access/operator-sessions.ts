import { createHmac, type KeyObject, randomBytes } from "node:crypto";
import type { Sql } from "../database/db.js";
import { deriveKey } from "../secrets/secrets.js";

/** How long a session lasts. */
export const SESSION_HOURS = 8;
/** A session ends this long after the last input of the operator. */
const IDLE_MINUTES = 30;

const IS_VALID = `created_at > now() - interval '${SESSION_HOURS} hours' AND last_used_at > now() - interval '${IDLE_MINUTES} minutes'`;

const START = `
  WITH ended AS (DELETE FROM operator_sessions WHERE NOT (${IS_VALID}))
  INSERT INTO operator_sessions (hash, name) VALUES ($1::bytea, $2)`;

// Not written again within a minute, nor for a difference that comes from idle time in whole seconds.
const FIND = `
  WITH found AS (
    SELECT hash, name, now() - make_interval(secs => $2) AS last_input FROM operator_sessions
    WHERE hash = ANY($1::bytea[]) AND ${IS_VALID} ORDER BY created_at DESC LIMIT 1
  ),
  used AS (
    UPDATE operator_sessions AS session SET last_used_at = last_input FROM found
    WHERE session.hash = found.hash
      AND last_used_at < least(last_input - interval '1 second', now() - interval '1 minute')
  )
  SELECT name FROM found`;

const END = "DELETE FROM operator_sessions WHERE hash = ANY($1::bytea[]) RETURNING name";

export interface OperatorSession {
  /** As given at the sign-in. */
  name: string;
}

/**
 * Sessions of operators who signed in with INTERNAL_TOKEN. They are rows, so that they hold on every process and end on
 * sign-out. A changed token ends them, because the token is the key of the hash by which they are found.
 */
export class OperatorSessions {
  readonly #db: Sql;
  readonly #key: KeyObject;

  constructor(db: Sql, internalToken: string) {
    this.#db = db;
    this.#key = deriveKey(internalToken, "session");
  }

  /** Returns the id of a new session: 256 random bits. */
  async start(name: string): Promise<string> {
    const id = randomBytes(32).toString("base64url");
    await this.#db.query("start-session", START, [this.#hash(id), name]);
    return id;
  }

  /** The newest session of these ids; undefined if all have ended. Its operator's last input was `idleSeconds` ago. */
  async find(ids: readonly string[], idleSeconds = 0): Promise<OperatorSession | undefined> {
    const [found] = await this.#query("find-session", FIND, ids, Math.min(idleSeconds, IDLE_MINUTES * 60));
    return found;
  }

  /** Returns the names of the operators whose sessions it ended. */
  async end(ids: readonly string[]): Promise<string[]> {
    return (await this.#query("end-session", END, ids)).map(({ name }) => name);
  }

  async #query(name: string, text: string, ids: readonly string[], ...others: number[]): Promise<OperatorSession[]> {
    if (ids.length === 0) return [];
    return this.#db.query<OperatorSession>(name, text, [ids.map((id) => this.#hash(id)), ...others]);
  }

  #hash(id: string): Buffer {
    return createHmac("sha256", this.#key).update(id).digest();
  }
}
