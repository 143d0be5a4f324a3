import { createHmac, type KeyObject, randomBytes, timingSafeEqual } from "node:crypto";
import type { Sql } from "../database/db.js";
import { toServiceError } from "../database/failures.js";
import { deriveKey } from "../encryption.js";

/** How long a session lasts. */
export const SESSION_HOURS = 8;
/** A session ends this long after the last input of the operator. */
const IDLE_MINUTES = 30;

const IS_VALID = `created_at > now() - interval '${SESSION_HOURS} hours' AND last_used_at > now() - interval '${IDLE_MINUTES} minutes'`;

const START = `
  WITH ended AS (DELETE FROM operator_sessions WHERE NOT (${IS_VALID}))
  INSERT INTO operator_sessions (hash, name) VALUES ($1::bytea, $2)`;

// `isUnwritten`: not again within a minute, nor for a difference that comes from idle time in whole seconds.
const FIND = `
  SELECT hash, name,
    last_used_at < least(last_input - interval '1 second', now() - interval '1 minute') AS "isUnwritten",
    extract(epoch FROM least(
      created_at + interval '${SESSION_HOURS} hours',
      greatest(last_used_at, last_input) + interval '${IDLE_MINUTES} minutes'
    ) - now())::float AS "secondsLeft"
  FROM operator_sessions CROSS JOIN (SELECT now() - make_interval(secs => $2) AS last_input) AS input
  WHERE hash = ANY($1::bytea[]) AND ${IS_VALID} ORDER BY created_at DESC LIMIT 1`;

const USE = `
  UPDATE operator_sessions SET last_used_at = greatest(last_used_at, now() - make_interval(secs => $2))
  WHERE hash = $1::bytea`;

const END = "DELETE FROM operator_sessions WHERE hash = ANY($1::bytea[]) RETURNING name";

export interface OperatorSession {
  /** As given at the sign-in. */
  name: string;
  /** Until it ends, without further input. */
  secondsLeft: number;
}

interface FoundSession extends OperatorSession {
  hash: Buffer;
  /** Whether the stored last input is to be replaced. */
  isUnwritten: boolean;
}

/** 256 bits in base64url, as the random part of an id and its signature. */
const HALF_LENGTH = 43;
const ID = new RegExp(`^[\\w-]{${2 * HALF_LENGTH}}$`);

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

  /** Returns the id of a new session: 256 random bits, signed, so that a made-up id is rejected without a query. */
  async start(name: string): Promise<string> {
    const id = this.#sign(randomBytes(32).toString("base64url"));
    await this.#db.query("start-session", START, [this.#mac(id), name]);
    return id;
  }

  /** The newest session of these ids; undefined if all have ended. Its operator's last input was `idleSeconds` ago. */
  async find(ids: readonly string[], idleSeconds = 0): Promise<OperatorSession | undefined> {
    const hashes = this.#hashes(ids);
    if (hashes.length === 0) return undefined;
    const idle = Math.min(idleSeconds, IDLE_MINUTES * 60);
    const [found] = await this.#db.query<FoundSession>("find-session", FIND, [hashes, idle]);
    if (found?.isUnwritten) {
      // A database that cannot be written can still be read.
      await this.#db.query("use-session", USE, [found.hash, idle]).catch(ignoreOutage);
    }
    return found;
  }

  /** Returns the names of the operators whose sessions it ended. */
  async end(ids: readonly string[]): Promise<string[]> {
    const hashes = this.#hashes(ids);
    if (hashes.length === 0) return [];
    return (await this.#db.query<{ name: string }>("end-session", END, [hashes])).map(({ name }) => name);
  }

  /** Those of the ids that `start` has returned. */
  #hashes(ids: readonly string[]): Buffer[] {
    return ids.filter((id) => this.#isSigned(id)).map((id) => this.#mac(id));
  }

  #isSigned(id: string): boolean {
    if (!ID.test(id)) return false;
    return timingSafeEqual(Buffer.from(id), Buffer.from(this.#sign(id.slice(0, HALF_LENGTH))));
  }

  #sign(random: string): string {
    return random + this.#mac(random).toString("base64url");
  }

  #mac(text: string): Buffer {
    return createHmac("sha256", this.#key).update(text).digest();
  }
}

function ignoreOutage(error: unknown): void {
  if (toServiceError(error).status !== 503) throw error;
}
