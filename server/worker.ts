import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Log, Services } from "./access/context.js";
import type { Settings } from "./config.js";
import { type DbHooks, openDb } from "./database/db.js";
import { emailChannel } from "./emails/channel.js";
import { type Mailer, smtpMailer } from "./emails/mailer.js";
import { loadTemplates, type Templates } from "./emails/templates.js";
import { JOBS } from "./jobs.js";
import { ActivityCounts } from "./outbox/activity.js";
import { runJob } from "./outbox/jobs.js";
import { startSending } from "./outbox/sending.js";
import { waitAtMost } from "./timeout.js";
import { deliveryChannel } from "./webhooks/channel.js";
import { createPost } from "./webhooks/request.js";

/**
 * One connection for each piece of work that runs beside the others, so that none waits for another's: a claim and the recording
 * of emails, the same of deliveries, the expiry of emails, the expiry of deliveries, and the retention.
 */
const POOL_SIZE = 7;
/** Those, and one for the heartbeats. */
export const WORKER_CONNECTIONS = POOL_SIZE + 1;

/** A frozen Postgres must not block shutdown. */
const CLOSE_TIMEOUT_SECONDS = 2;

export interface WorkerOptions {
  /** Default: those of the settings. */
  templates?: Templates | undefined;
  /** Default: the mail server of SMTP_URL. */
  mailer?: Mailer | undefined;
  onDatabaseError?: DbHooks["onFailure"];
}

/** Returns why emails wait with these settings; undefined if they are sent. */
export const whyEmailsWait = ({ SMTP_URL }: Settings): string | undefined =>
  SMTP_URL ? undefined : "SMTP_URL is not set";

/**
 * Starts the background work: sending emails and webhook deliveries, ending those that wait too long, erasing addresses that are due,
 * and deleting rows past their retention. Without a mailer, emails wait. Rejects if the database cannot be reached at the start; later
 * outages are retried.
 */
export async function startWorker(
  services: Services,
  log: Log,
  options: WorkerOptions = {},
): Promise<{ stop(): Promise<void> }> {
  const { settings } = services;
  const templates = options.templates ?? (await loadTemplates(settings));
  const mailer = options.mailer ?? (await smtpMailer(settings));
  // Separate pools: requests may exhaust the gateway's, and nothing may delay the heartbeats.
  const [db, heartbeatDb] = [POOL_SIZE, 1].map((size) =>
    openDb(
      { ...settings, DATABASE_POOL_SIZE: size },
      {
        onError: ({ message, code }) =>
          log.warn({ reason: message, code }, "a database connection of the worker was lost"),
        onFailure: options.onDatabaseError,
      },
    ),
  ) as [Services["db"], Services["db"]];
  const close = () => Promise.all([db.close(), heartbeatDb.close()]);
  await db.query("worker-start", "SELECT 1", []).catch(async (error) => {
    await close();
    throw error;
  });
  const workerId = `${hostname()}:${process.pid}:${randomUUID()}`;
  const counts = new ActivityCounts();
  const deps = { services: { ...services, db }, workerId, counts, log };
  const deliveries = deliveryChannel({ ...deps, post: createPost(settings) });
  const sending = startSending(
    {
      workerId,
      channels: mailer ? [emailChannel({ ...deps, templates, mailer }), deliveries] : [deliveries],
      heartbeatDb,
      counts,
      activity: mailer ? "worker.with_mailer" : "worker.without_mailer",
      drainSeconds: settings.DRAIN_SECONDS,
    },
    log,
  );
  const stopping = new AbortController();
  const jobs = JOBS.map((job) => runJob(job, { ...services, db, counts }, log, stopping.signal));
  return {
    async stop() {
      stopping.abort();
      const stopped = Promise.all([sending.stop(), ...jobs]).then(close);
      await waitAtMost(settings.DRAIN_SECONDS + CLOSE_TIMEOUT_SECONDS, stopped);
    },
  };
}
