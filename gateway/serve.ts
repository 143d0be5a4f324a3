import cluster from "node:cluster";
import type { Server } from "node:http";
import { Server as TcpServer } from "node:net";
import type { Logger } from "pino";
import { type Settings, SettingsError } from "../server/config.js";
import type { Mailer } from "../server/notifications/mailer.js";
import { openServices } from "../server/services.js";
import { startWorker, whyNotificationsWait } from "../server/worker.js";
import { createApp, serverOf } from "./app.js";
import type { Lifecycle } from "./http/health.js";
import { SharedStore } from "./http/shared-store.js";
import { startInternal } from "./internal/app.js";
import { createMetrics } from "./internal/metrics.js";
import { answerPrimary, tellPrimary } from "./internal/metrics-fleet.js";
import { drain, listen } from "./process/listening.js";
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
  /** Takes the messages in place of the mail server of SMTP_URL. */
  mailer?: Mailer | undefined;
}): Promise<Gateway> {
  const { settings, log } = options;
  const tracing = isTraced(settings) ? (await loadTracing()).startTracing(log) : undefined;
  const metrics = settings.INTERNAL_TOKEN ? createMetrics() : undefined;
  const onDatabaseError = metrics?.onDatabaseError;
  const { services, close } = await openServices(settings, log, {
    observe: tracing?.observeStatement,
    onFailure: onDatabaseError,
  });
  metrics?.watchPool(services.db.pool);
  const lifecycle: Lifecycle = { stage: "serving" };
  const redis = settings.REDIS_URL ? openRedis(settings.REDIS_URL, log) : undefined;
  const app = createApp({
    services,
    log,
    lifecycle,
    notificationsWait: options.worker && !options.mailer ? whyNotificationsWait(settings) : undefined,
    counters: redis && ((prefix) => new SharedStore(redis, prefix, metrics?.onFallback)),
    metrics,
    traceRequests: tracing?.traceRequests,
  });
  const server = serverOf(app);
  let internal: Awaited<ReturnType<typeof startInternal>>;
  try {
    // The first requests count with the others, unless Redis is lost.
    await redis?.tried;
    const url = await listen(server, settings.HOST, settings.PORT);
    // Of several processes, the primary opens the internal port for all.
    if (metrics && cluster.isWorker) answerPrimary(metrics);
    else if (metrics)
      internal = await startInternal({ services, log, metrics, traceRequests: tracing?.traceRequests });
    const worker = options.worker
      ? await startWorker(services, log, { mailer: options.mailer, onDatabaseError })
      : undefined;
    log.info({ url }, "listening");
    return {
      url,
      leave() {
        lifecycle.stage = "leaving";
      },
      retire() {
        lifecycle.stage = "leaving";
        return retire(server, settings.DRAIN_SECONDS * 1000);
      },
      async stop() {
        lifecycle.stage = "draining";
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

const isTraced = (settings: Settings) =>
  !settings.OTEL_SDK_DISABLED &&
  (settings.OTEL_EXPORTER_OTLP_ENDPOINT ?? settings.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) !== undefined;

/** Loads OpenTelemetry, whose packages are optional dependencies. */
async function loadTracing() {
  try {
    return await import("./internal/tracing.js");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new SettingsError(
      "Traces are asked for (OTEL_EXPORTER_OTLP_ENDPOINT), but the OpenTelemetry packages are not installed: install guest-forms without --omit=optional, or set OTEL_SDK_DISABLED=true.",
    );
  }
}

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
