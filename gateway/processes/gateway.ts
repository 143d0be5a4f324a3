import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import type { Mailer } from "../../server/emails/mailer.js";
import { loadTemplates } from "../../server/emails/templates.js";
import { announceSecrets } from "../../server/secrets/uses.js";
import { openServices } from "../../server/services.js";
import { startWorker, whyEmailsWait } from "../../server/worker.js";
import { Admission } from "../http/admission.js";
import { requestTimeoutMs } from "../http/deadline.js";
import type { Lifecycle } from "../http/health.js";
import { LocalStore, sharedStore } from "../http/rate-limit.js";
import { startInternal } from "../internal/app.js";
import { createMetrics } from "../internal/metrics.js";
import { drain, listen } from "../runtime/listening.js";
import { openReadiness } from "../runtime/readiness.js";
import { createApp, createHttpServer } from "./app.js";

export type Gateway = Awaited<ReturnType<typeof startGateway>>;

interface GatewayOptions {
  settings: Settings;
  log: Logger;
  worker: boolean;
  /** Used instead of the mail server of SMTP_URL. */
  mailer?: Mailer | undefined;
}

/** Starts the service: the gateway and, if asked, the worker. */
export async function startGateway(options: GatewayOptions) {
  const { settings, log } = options;
  // A template that cannot be used ends the start before it listens.
  const templates = options.worker ? await loadTemplates(settings) : undefined;
  const tracing = await openTracing(settings, log);
  const metrics = settings.INTERNAL_TOKEN ? createMetrics() : undefined;
  const { services, close } = await openServices(settings, log, {
    observe: tracing?.observeStatement,
    onFailure: metrics?.onDatabaseError,
    onRead: metrics?.onRead,
  });
  metrics?.watchPool(services.db.pool);
  const admission = new Admission(settings);
  metrics?.watchHolders(services.holderLimit, admission);
  const secrets = announceSecrets(services);
  const readiness = openReadiness(settings, requestTimeoutMs(settings), log);
  const lifecycle: Lifecycle = { stage: "serving" };
  const redis = await openRedis(settings, log);
  if (redis) metrics?.watchRedis(redis);
  const app = createApp({
    services,
    readiness,
    admission,
    log,
    lifecycle,
    emailsWaitReason: options.worker && !options.mailer ? whyEmailsWait(settings) : undefined,
    createStore: (prefix) => (redis ? sharedStore(redis, prefix, metrics?.onFallback) : new LocalStore()),
    metrics,
    traceRequests: tracing?.traceRequests,
  });
  const server = createHttpServer(app);
  const closeDependencies = async () => {
    redis?.close();
    await Promise.all([tracing?.stop(), secrets.stop()]);
    await Promise.all([readiness.close(), close()]);
  };
  let internal: Awaited<ReturnType<typeof startInternal>>;
  try {
    // Connect first, so that the first requests are counted in Redis too.
    await redis?.connect();
    const url = await listen(server, settings, "PORT");
    const traceRequests = tracing?.traceRequests;
    internal = metrics && (await startInternal({ services, readiness, log, metrics, traceRequests }));
    const workerOptions = { templates, mailer: options.mailer, onDatabaseError: metrics?.onDatabaseError };
    const worker = options.worker ? await startWorker(services, log, workerOptions) : undefined;
    log.info({ url }, "listening");
    return {
      /** The address it listens on, such as http://127.0.0.1:3000. */
      url,
      /** Of the internal port, if it is open. */
      internalUrl: internal?.url,
      /** From now on /readyz returns 503 and every response closes its connection. Requests are still served. */
      markUnready() {
        lifecycle.stage = "unready";
      },
      /** Rejects new requests, waits for the running ones (DRAIN_SECONDS at most), then closes everything. */
      async stop() {
        lifecycle.stage = "draining";
        await Promise.all([drain(server, settings.DRAIN_SECONDS * 1000), worker?.stop(), internal?.stop()]);
        await closeDependencies();
        log.info({}, "stopped");
      },
    };
  } catch (error) {
    server.close();
    await internal?.stop();
    await closeDependencies();
    throw error;
  }
}

/** Opens Redis if the settings name one. Otherwise its client is not loaded. */
async function openRedis({ REDIS_URL }: Settings, log: Logger) {
  if (REDIS_URL === undefined) return undefined;
  return (await import("../runtime/redis.js")).openRedis(REDIS_URL, log);
}

/** Starts tracing if the settings enable it. Otherwise OpenTelemetry is not loaded. */
async function openTracing(settings: Settings, log: Logger) {
  const receiver = settings.OTEL_EXPORTER_OTLP_ENDPOINT ?? settings.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT;
  if (settings.OTEL_SDK_DISABLED || receiver === undefined) return undefined;
  const { startTracing } = await import("../internal/tracing.js");
  return startTracing(log, settings.OTEL_TRACES_SAMPLER_ARG);
}
