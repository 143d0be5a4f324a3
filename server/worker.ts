import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Log, Services } from "./access/context.js";
import { recordActivity } from "./background/activity.js";
import { repeat } from "./background/repeat.js";
import type { Settings } from "./config.js";
import { type DbHooks, openDb } from "./database/db.js";
import { loadTemplates, type Templates } from "./emails/templates.js";
import { eraseDueEmails } from "./erasure/erase.js";
import { emailChannel } from "./notifications/emails.js";
import { expireNotifications } from "./notifications/expiry.js";
import { type Mailer, smtpMailer } from "./notifications/mailer.js";
import { createQueue } from "./outbox/queue.js";
import { startSending } from "./outbox/worker.js";
import { deleteOldRows } from "./retention.js";
import { waitAtMost } from "./timeout.js";
import { deliveryChannel } from "./webhooks/channel.js";
import { createPost } from "./webhooks/request.js";

/** Connections of a worker for heartbeats and deliveries, for the retention and for expiry, besides those for emails. */
export const WORKER_EXTRA_CONNECTIONS = 3;
const RETENTION_MS = 3_600_000;
const RETENTION_RETRY_MS = 60_000;
/** Only for invitations that wait: whatever is sent is checked then. */
const EXPIRY_MS = 300_000;
const EXPIRY_RETRY_MS = 5_000;
/** A frozen Postgres must not block shutdown. */
const CLOSE_TIMEOUT_SECONDS = 2;

export interface WorkerOptions {
  /** Default: those of the settings. */
  templates?: Templates | undefined;
  /** Default: the mail server of SMTP_URL. */
  mailer?: Mailer | undefined;
  onDatabaseError?: DbHooks["onFailure"];
}

/** Returns why notifications wait with these settings; undefined if they are sent. */
export const whyNotificationsWait = ({ SMTP_URL }: Settings): string | undefined =>
  SMTP_URL ? undefined : "SMTP_URL is not set";

/**
 * Starts the background work: sending emails and webhook deliveries, erasing addresses that are due, and deleting rows past their retention.
 * Without a mailer, emails wait. Rejects if the database cannot be reached at the start; later outages are retried.
 */
export async function startWorker(
  services: Services,
  log: Log,
  options: WorkerOptions = {},
): Promise<{ stop(): Promise<void> }> {
  const { settings } = services;
  const templates = options.templates ?? (await loadTemplates(settings));
  const mailer = options.mailer ?? (await smtpMailer(settings));
  // A separate pool: heartbeats must get through even if requests exhaust the gateway's pool.
  const db = openDb(
    { ...settings, DATABASE_POOL_SIZE: settings.WORKER_CONCURRENCY + WORKER_EXTRA_CONNECTIONS },
    {
      onError: ({ message }) => log.warn({ reason: message }, "a database connection of the worker was lost"),
      onFailure: options.onDatabaseError,
    },
  );
  await db.query("worker-start", "SELECT 1", []).catch(async (error) => {
    await db.close();
    throw error;
  });
  const workerServices = { ...services, db };
  const queue = createQueue(db, `${hostname()}:${process.pid}:${randomUUID()}`);
  const emails = mailer ? [emailChannel({ services: workerServices, templates, mailer, queue, log })] : [];
  const deliveries = deliveryChannel(services, createPost(settings), queue, log);
  const activity = mailer ? "worker.sending" : "worker.waiting";
  const sending = startSending(workerServices, { queue, channels: [...emails, deliveries], activity }, log);
  const stopping = new AbortController();
  const runRetention = async () => {
    if (settings.RETENTION_DAYS > 0) await eraseDueEmails(workerServices, log, stopping.signal);
    await deleteOldRows(workerServices, log, stopping.signal);
    await recordActivity(workerServices.db, "retention.run");
    return RETENTION_MS;
  };
  const retention = repeat(runRetention, {
    signal: stopping.signal,
    retryMs: RETENTION_RETRY_MS,
    onFailure: (err) => log.error({ err }, "the retention failed"),
  });
  const runExpiry = async () => {
    await expireNotifications(workerServices, log, stopping.signal);
    return EXPIRY_MS;
  };
  const expiry = repeat(runExpiry, {
    signal: stopping.signal,
    retryMs: EXPIRY_RETRY_MS,
    onFailure: (err) => log.warn({ err }, "cannot expire notifications"),
  });
  return {
    async stop() {
      stopping.abort();
      const stopped = Promise.all([sending.stop(), retention, expiry]).then(() => db.close());
      await waitAtMost(settings.DRAIN_SECONDS + CLOSE_TIMEOUT_SECONDS, stopped);
    },
  };
}
