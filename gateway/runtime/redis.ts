import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "@redis/client";
import type { Logger } from "pino";
import { describeConnectionFailure } from "../../server/connection-failures.js";

/** If a command takes longer, Redis counts as lost. */
const COMMAND_TIMEOUT_MS = 250;
const CONNECT_TIMEOUT_MS = 1_000;
const RECONNECT_DELAY_MS = 500;

/** An optional Redis: it may be lost and come back at any time. */
export type Redis = ReturnType<typeof openRedis>;

/**
 * Connects to Redis, and reconnects until closed. The service starts and serves with or without it. After a loss it opens
 * a new connection, because a lost one may not recover until 15 minutes after the network is back. Logs one line when Redis
 * is lost, and one when it is back.
 */
export function openRedis(url: string, log: Logger) {
  const preparations: (() => Promise<unknown>)[] = [];
  /** The current connection. `lose` reports that it is lost. */
  let connection: { client: Client; lose(reason: unknown): void } | undefined;
  let isUp = false;
  let isClosed = false;
  let isLossLogged = false;

  /** Connects. Resolves with the reason when the connection fails or is lost. */
  const connectUntilLost = (onAttempted: () => void) =>
    new Promise<unknown>((lose) => {
      const client = connectionTo(url).on("error", lose);
      connection = { client, lose };
      const connect = async () => {
        await client.connect();
        for (const prepare of preparations) await prepare();
      };
      withTimeout(CONNECT_TIMEOUT_MS, connect()).then(() => {
        if (connection?.client !== client) return;
        isUp = true;
        if (isLossLogged) log.info({}, "Redis is available again: it counts the rate limits");
        isLossLogged = false;
        onAttempted();
      }, lose);
    });

  const reconnectUntilClosed = async (onAttempted: () => void) => {
    while (!isClosed) {
      const reason = await connectUntilLost(onAttempted);
      const wasUp = isUp;
      isUp = false;
      connection?.client.destroy();
      connection = undefined;
      onAttempted();
      if (isClosed) return;
      if (!isLossLogged)
        log.warn({ reason: describeLoss(reason) }, "Redis is unavailable: rate limits are counted in this process");
      isLossLogged = true;
      if (!wasUp) await sleep(RECONNECT_DELAY_MS, undefined, { ref: false });
    }
  };

  return {
    isUp: () => isUp,
    /** Sends a command; rejects at once while Redis is lost, and after `COMMAND_TIMEOUT_MS`. */
    async send(command: string[]): Promise<unknown> {
      const used = connection;
      if (!used) throw new Error("not connected");
      try {
        return await withTimeout(COMMAND_TIMEOUT_MS, used.client.sendCommand(command));
      } catch (error) {
        if (!isCommandError(error)) used.lose(error);
        throw error;
      }
    },
    /** Called after each connect. Redis is up once all callbacks have resolved, and lost if one rejects. */
    onConnect: (prepare: () => Promise<unknown>) => void preparations.push(prepare),
    /** Resolves when the first attempt has succeeded or failed. Call it after `onConnect`. */
    connect: () => new Promise<void>((resolve) => void reconnectUntilClosed(resolve)),
    close() {
      isClosed = true;
      connection?.lose(new Error("closed"));
    },
  };
}

type Client = ReturnType<typeof connectionTo>;

/** A connection that does not reconnect. */
export const connectionTo = (url: string) =>
  createClient({
    url,
    disableOfflineQueue: true,
    socket: { connectTimeout: CONNECT_TIMEOUT_MS, reconnectStrategy: false },
  });

/** Unlike `waitAtMost`, rejects after the timeout, and does not count delays of this process's event loop. */
async function withTimeout<Result>(ms: number, work: Promise<Result>): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  let isDone = false;
  const timeout = new Promise<never>((_, reject) => {
    const fail = () => reject(new Error(`no reply within ${ms} ms`));
    // Commands are written at the end of an iteration of the event loop, and responses read in the next. In a burst of requests
    // an iteration may take longer than Redis.
    setImmediate(() => {
      if (!isDone) timer = setTimeout(() => setImmediate(fail), ms);
    });
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    isDone = true;
    clearTimeout(timer);
    work.catch(() => {});
  }
}

/** Whether Redis works, and rejected only this command. */
const isCommandError = (error: unknown) => error instanceof Error && /^(NOSCRIPT|WRONGTYPE)\b/.test(error.message);

/** The first version with HELLO, which the client sends on connect. */
const MIN_REDIS = 6;

function describeLoss(reason: unknown): string {
  if (!(reason instanceof Error)) return "closed";
  if (/unknown command.*HELLO/i.test(reason.message)) {
    return `it is older than Redis ${MIN_REDIS}, the minimum version`;
  }
  return describeConnectionFailure(reason, "REDIS_URL");
}
