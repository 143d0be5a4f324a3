import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "@redis/client";
import type { Logger } from "pino";

/** Milliseconds a command may take; then Redis counts as lost, frozen or not. */
const COMMAND_MS = 250;
/** Milliseconds an attempt to find it again may take, and those between two attempts. */
const ATTEMPT_MS = 1_000;
const PAUSE_MS = 500;

/** A Redis that is used while it answers and done without while it does not. */
export interface Redis {
  isUp(): boolean;
  /** Sends a command; rejects at once while Redis is lost, and after `COMMAND_MS` at the latest. */
  send(command: string[]): Promise<unknown>;
  /** Calls back each time that Redis is found, before it counts as up; where that fails it stays lost. */
  onFound(prepare: () => Promise<unknown>): void;
  /** Resolves when the first attempt to find it is over, well or not. */
  readonly tried: Promise<void>;
  close(): void;
}

/**
 * Looks for Redis until it is closed: the service starts and serves whether Redis is there or not. Each loss makes a
 * new connection, for one that has gone silent may stay so for a quarter of an hour after the network has come back.
 * Losing and finding it are one log line each.
 */
export function openRedis(url: string, log: Logger): Redis {
  const preparations: (() => Promise<unknown>)[] = [];
  let client: Client | undefined;
  let up = false;
  let closed = false;
  let told = false;
  let lose = (_connection: Client | undefined, _reason: unknown) => {};

  /** Finds Redis and resolves with the reason when it has lost it, or has not found it. */
  const useUntilLost = (onTried: () => void) =>
    new Promise<unknown>((resolve) => {
      const mine = connectionTo(url);
      let over = false;
      const end = (reason: unknown) => {
        over = true;
        resolve(reason);
      };
      client = mine;
      // What is left of an earlier connection may still fail.
      lose = (connection, reason) => connection === mine && end(reason);
      mine.on("error", end);
      const connect = async () => {
        await mine.connect();
        for (const prepare of preparations) await prepare();
      };
      within(ATTEMPT_MS, connect()).then(() => {
        if (over) return;
        up = true;
        if (told) log.info({}, "Redis is back: rate limits are counted there");
        told = false;
        onTried();
      }, end);
    });

  const keepLooking = async (onTried: () => void) => {
    while (!closed) {
      const reason = await useUntilLost(onTried);
      const wasUp = up;
      up = false;
      client?.destroy();
      onTried();
      if (closed) return;
      if (!told)
        log.warn({ reason: textOf(reason) }, "Redis is lost: rate limits are counted in this process");
      told = true;
      if (!wasUp) await sleep(PAUSE_MS, undefined, { ref: false });
    }
  };

  return {
    isUp: () => up,
    async send(command) {
      const used = client;
      try {
        if (!used) throw new Error("not connected yet");
        return await within(COMMAND_MS, used.sendCommand(command));
      } catch (error) {
        if (!isAboutTheCommand(error)) lose(used, error);
        throw error;
      }
    },
    onFound: (prepare) => {
      preparations.push(prepare);
    },
    // In the next turn, so that whoever opened it can say what is to be prepared.
    tried: new Promise((resolve) => setImmediate(keepLooking, resolve)),
    close() {
      closed = true;
      lose(client, new Error("closed"));
    },
  };
}

type Client = ReturnType<typeof connectionTo>;

/** A connection that is lost for good when it fails. */
export const connectionTo = (url: string) =>
  createClient({
    url,
    disableOfflineQueue: true,
    socket: { connectTimeout: ATTEMPT_MS, reconnectStrategy: false },
  });

/** A timeout that excludes delays of this process's event loop, and rejects: `waitAtMost` does neither. */
async function within<Result>(ms: number, work: Promise<Result>): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  let over = false;
  const late = new Promise<never>((_, reject) => {
    const giveUp = () => reject(new Error(`no answer in ${ms} ms`));
    // Commands are written at the end of a turn of the event loop, answers read at the beginning of the next: in a
    // burst of requests a turn may take longer than Redis.
    setImmediate(() => {
      if (!over) timer = setTimeout(() => setImmediate(giveUp), ms);
    });
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    over = true;
    clearTimeout(timer);
    work.catch(() => {});
  }
}

/** Whether Redis has answered, and what it refuses is this command alone. */
const isAboutTheCommand = (error: unknown) =>
  error instanceof Error && /^(NOSCRIPT|WRONGTYPE)\b/.test(error.message);

/** The oldest Redis that knows HELLO, with which the client begins. */
const MIN_REDIS = 6;

// A refused connection to a name with several addresses is an AggregateError without a message.
function textOf(reason: unknown): string {
  if (!(reason instanceof Error)) return "closed";
  if (/unknown command.*HELLO/i.test(reason.message)) {
    return `it is older than Redis ${MIN_REDIS}, which guest-forms needs at least`;
  }
  return reason.message || (reason as NodeJS.ErrnoException).code || reason.name;
}
