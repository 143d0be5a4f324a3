import type { Services } from "../../server/access/context.js";
import { readSettings } from "../../server/config.js";
import { emailChannel } from "../../server/emails/channel.js";
import type { Mailer } from "../../server/emails/mailer.js";
import { loadTemplates } from "../../server/emails/templates.js";
import { ActivityCounts } from "../../server/outbox/activity.js";
import { attempt, type Channel } from "../../server/outbox/attempt.js";
import { type Claimed, claimValues, ServedTenants } from "../../server/outbox/claim.js";
import { releaseStale, sendHeartbeat } from "../../server/outbox/heartbeats.js";
import type { Outcome } from "../../server/outbox/record.js";
import type { OutboxTable } from "../../server/outbox/states.js";
import { deliveryChannel } from "../../server/webhooks/channel.js";
import { createPost, type Post } from "../../server/webhooks/request.js";

const WAITING = ["waiting", "retrying"];

/** SQL that puts rows of the outbox in a state, with the columns that go with it. */
export const setState = (table: OutboxTable, state: string, condition = "true") => `
  UPDATE ${table} SET state = '${state}',
    next_attempt_at = ${WAITING.includes(state) ? "coalesce(next_attempt_at, now())" : "NULL"},
    ended_at = ${[...WAITING, "running"].includes(state) ? "NULL" : "coalesce(ended_at, now())"}
  WHERE ${condition}`;

const SILENT = { info() {}, warn() {}, error() {} };

const NO_MAILER: Mailer = { send: async () => null };
const templates = await loadTemplates(readSettings({}));

/** The rows of a channel as one worker sees them, without its loop. */
function queueOf<Row extends Claimed, Ending extends Outcome>(
  { db }: Services,
  workerId: string,
  channel: Channel<Row, Ending>,
) {
  const served = new ServedTenants();
  return {
    channel,
    /** Claims at most `free` rows while it sends those `inFlight`. */
    async claimSome(free: number, inFlight: Row[] = []): Promise<Row[]> {
      const claimed = await channel.claim(claimValues(free, inFlight, served));
      for (const { tenantId } of claimed) served.add(tenantId);
      return claimed;
    },
    async claim(): Promise<Row | undefined> {
      return (await this.claimSome(1))[0];
    },
    heartbeat: (ids: string[]) => sendHeartbeat(db, channel.table, workerId, ids),
    releaseStale: () => releaseStale(db, channel.table),
    /** Makes the attempt, and records its outcome. */
    attempt: async (row: Row) => channel.record([await attempt(channel, row, SILENT)]),
    isLastAttempt: ({ attempts }: Row) => attempts >= channel.maxAttempts,
    /** Records an outcome without an attempt. */
    mark: ({ id }: Row, state: string, reason: string | null = null) =>
      channel.record([{ id, state, reason } as Ending]),
  };
}

/** The emails in the outbox. */
export const emailQueue = (services: Services, workerId: string, mailer = NO_MAILER, counts = new ActivityCounts()) =>
  queueOf(services, workerId, emailChannel({ services, templates, mailer, workerId, counts, log: SILENT }));

/** The webhook deliveries in the outbox. */
export const deliveryQueue = (
  services: Services,
  workerId: string,
  post: Post = createPost(services.settings),
  counts = new ActivityCounts(),
) => queueOf(services, workerId, deliveryChannel({ services, post, workerId, counts, log: SILENT }));
