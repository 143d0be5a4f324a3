import { LRUCache } from "lru-cache";
import type { OperatorSession, OperatorSessions } from "../../server/access/operator-sessions.js";
import { toServiceError } from "../../server/database/failures.js";
import { ServiceError, unavailable } from "../../server/errors.js";
import { waitAtMost } from "../../server/timeout.js";

const MAX_REMEMBERED = 100;
/** Less than the timeout of a request. */
const ANSWER_SECONDS = 1;

interface Remembered {
  session: OperatorSession;
  /** By `performance.now()`. */
  endsAt: number;
}

/**
 * Sessions of operators, and a memory of those that this process has found. While the database does not answer, a remembered
 * session holds until it would end without further input, or until a sign-out here.
 */
export class KnownSessions {
  readonly #sessions: OperatorSessions;
  readonly #remembered = new LRUCache<string, Remembered>({ max: MAX_REMEMBERED });
  /** The ids of each `#find` in progress, unless one of them was signed out: its answer may be from before. */
  readonly #finding = new Set<readonly string[]>();

  constructor(sessions: OperatorSessions) {
    this.#sessions = sessions;
  }

  /** Returns the id of a new session. */
  start(name: string): Promise<string> {
    return explainOutage(
      this.#sessions.start(name),
      "The token is right, but the session cannot be stored: the database does not answer, or cannot be written. " +
        "Sign in again when it is back.",
    );
  }

  /**
   * The newest session of these ids; UNAUTHENTICATED if all have ended. With `acceptsRemembered`, a remembered session is enough
   * if the database does not answer within a second.
   */
  async find(ids: readonly string[], idleSeconds: number, acceptsRemembered: boolean): Promise<OperatorSession> {
    const found = this.#find(ids, idleSeconds);
    const remembered = this.#remembered.get(ids.join());
    if (!acceptsRemembered || !remembered || performance.now() >= remembered.endsAt) return found;
    let { session } = remembered;
    const answered = found.then(
      (answer) => {
        session = answer;
      },
      (error: ServiceError) => {
        if (error.status !== 503) throw error;
      },
    );
    await waitAtMost(ANSWER_SECONDS, answered);
    return session;
  }

  /** As the database says. Remembers it, unless it was signed out here meanwhile. */
  async #find(ids: readonly string[], idleSeconds: number): Promise<OperatorSession> {
    const finding = [...ids];
    this.#finding.add(finding);
    try {
      const session = await explainOutage(
        this.#sessions.find(ids, idleSeconds),
        "The database does not answer, so your session cannot be checked.",
      );
      if (!session) {
        this.#remembered.delete(ids.join());
        throw new ServiceError("UNAUTHENTICATED", { message: "You are not signed in, or your session has ended." });
      }
      if (this.#finding.has(finding)) {
        this.#remembered.set(ids.join(), { session, endsAt: performance.now() + session.secondsLeft * 1000 });
      }
      return session;
    } finally {
      this.#finding.delete(finding);
    }
  }

  /** Returns the names of the operators whose sessions it ended. */
  async end(ids: readonly string[]): Promise<string[]> {
    try {
      return await explainOutage(
        this.#sessions.end(ids),
        "The database does not answer, so your session cannot be ended. Sign out again when it is back.",
      );
    } finally {
      const hasEnded = (some: readonly string[]) => some.some((id) => ids.includes(id));
      for (const key of this.#remembered.keys()) if (hasEnded(key.split(","))) this.#remembered.delete(key);
      for (const finding of this.#finding) if (hasEnded(finding)) this.#finding.delete(finding);
    }
  }
}

/** The result of the work. If the database does not answer, its error has this message. */
const explainOutage = <Result>(work: Promise<Result>, message: string): Promise<Result> =>
  work.catch((error) => {
    const failure = toServiceError(error);
    throw failure.status === 503 ? unavailable({ cause: error, message }) : failure;
  });
