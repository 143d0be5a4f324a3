import cluster from "node:cluster";
import { createServer, IncomingMessage, type Server, ServerResponse } from "node:http";
import { Server as TcpServer } from "node:net";
import type { Express } from "express";
import type { Logger } from "pino";
import type { Settings } from "../server/config.js";
import { openServices } from "../server/services.js";
import { startWorker } from "../server/worker.js";
import { createApp } from "./app.js";
import { envelopeRefusals } from "./http/refusals.js";
import { SharedStore } from "./http/shared-store.js";
import { startInternal } from "./internal/app.js";
import { createMetrics } from "./internal/metrics.js";
import { answerPrimary, tellPrimary } from "./internal/metrics-fleet.js";
import { drain, LIMITS, listen } from "./process/listening.js";
import { openRedis } from "./process/redis.js";

export interface Gateway {
  /** Where it listens, such as http://127.0.0.1:3000. */
  url: string;
  /** From now on /readyz says 503 and every answer ends its connection; all else goes on. */
  leave(): void;
  /**
   * Leaves to other processes what is new: takes no more connections, but serves what arrives on those there are,
   * until they are gone or DRAIN_SECONDS are over. `stop` remains to be called.
   */
  retire(): Promise<void>;
  /** Stops taking requests, lets the running ones finish (DRAIN_SECONDS at most), then closes everything. */
  stop(): Promise<void>;
}

/** Starts the service: the gateway and, if asked, the notification worker. */
export async function startGateway(options: {
  settings: Settings;
  log: Logger;
  worker: boolean;
}): Promise<Gateway> {
  const { settings, log } = options;
  const tracing = isTraced(settings) ? (await import("./internal/tracing.js")).startTracing(log) : undefined;
  const { services, close } = await openServices(settings, log, tracing?.observeStatement);
  let leaving = false;
  let draining = false;
  const metrics = settings.INTERNAL_TOKEN ? createMetrics(services) : undefined;
  const redis = settings.REDIS_URL ? openRedis(settings.REDIS_URL, log) : undefined;
  const app = createApp({
    services,
    log,
    isDraining: () => draining,
    isLeaving: () => leaving,
    counters: redis && ((prefix) => new SharedStore(redis, prefix, metrics?.onFallback)),
    metrics,
    traceRequests: tracing?.traceRequests,
  });
  const server = createServer({ ...LIMITS, ...classesOf(app) }, app);
  envelopeRefusals(server);
  let internal: Awaited<ReturnType<typeof startInternal>>;
  try {
    // The first requests count with the others, unless Redis is lost.
    await redis?.tried;
    const url = await listen(server, settings.HOST, settings.PORT);
    // Of several processes, the primary opens the internal port for all.
    if (metrics && cluster.isWorker) answerPrimary(metrics);
    else if (metrics)
      internal = await startInternal({ services, log, metrics, traceRequests: tracing?.traceRequests });
    const worker = options.worker ? await startWorker(services, log) : undefined;
    log.info({ url }, "listening");
    return {
      url,
      leave() {
        leaving = true;
      },
      retire() {
        leaving = true;
        return retire(server, settings.DRAIN_SECONDS * 1000);
      },
      async stop() {
        leaving = true;
        draining = true;
        await Promise.all([drain(server, settings.DRAIN_SECONDS * 1000), worker?.stop(), internal?.stop()]);
        if (metrics && cluster.isWorker) await tellPrimary(metrics);
        redis?.close();
        await tracing?.stop();
        await close();
        log.info({}, "stopped");
      },
    };
  } catch (error) {
    server.close();
    await internal?.stop();
    redis?.close();
    await close();
    throw error;
  }
}

/**
 * Request and response classes that have the application's prototypes from the start. Express would otherwise change
 * the prototype of every request and response, which makes them slow in V8: .47 of the throughput, as measured.
 */
function classesOf(app: Express) {
  class Request extends IncomingMessage {}
  class Response<Req extends IncomingMessage> extends ServerResponse<Req> {}
  app.request = Object.setPrototypeOf(Request.prototype, app.request);
  app.response = Object.setPrototypeOf(Response.prototype, app.response);
  return { IncomingMessage: Request, ServerResponse: Response };
}

const isTraced = (settings: Settings) =>
  !settings.OTEL_SDK_DISABLED &&
  (settings.OTEL_EXPORTER_OTLP_ENDPOINT ?? settings.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) !== undefined;

/** Resolves when the last connection has gone, or when time is up. */
function retire(server: Server, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const cut = setTimeout(resolve, ms);
    // That of HTTP servers ends idle connections too, on which a client may be sending just now.
    TcpServer.prototype.close.call(server, () => {
      clearTimeout(cut);
      resolve();
    });
  });
}
