import type { Services } from "../../server/access/context.js";
import { readSettings } from "../../server/config.js";
import { emailChannel } from "../../server/emails/channel.js";
import type { Mailer } from "../../server/emails/mailer.js";
import { loadTemplates } from "../../server/emails/templates.js";
import { ActivityCounts } from "../../server/outbox/activity.js";
import { attempt } from "../../server/outbox/attempt.js";
import { claimValues, ServedTenants } from "../../server/outbox/claim.js";
import { releaseStale, sendHeartbeat } from "../../server/outbox/heartbeats.js";

const SILENT = { info() {}, warn() {}, error() {} };

const NO_MAILER: Mailer = { send: async () => {} };
const templates = await loadTemplates(readSettings({}));

/** The emails in the outbox as one worker sees them, without its loop. */
export function emailQueue(services: Services, workerId: string, mailer: Mailer = NO_MAILER) {
  const counts = new ActivityCounts();
  const channel = emailChannel({ services, templates, mailer, workerId, counts, log: SILENT });
  const served = new ServedTenants();
  type Claimed = Awaited<ReturnType<typeof channel.claim>>[number];
  return {
    counts,
    /** Claims at most `free` emails while it sends those `inFlight`. */
    async claimSome(free: number, inFlight: Claimed[] = []): Promise<Claimed[]> {
      const claimed = await channel.claim(claimValues(free, inFlight, served));
      for (const { tenantId } of claimed) served.add(tenantId);
      return claimed;
    },
    async claim(): Promise<Claimed | undefined> {
      return (await this.claimSome(1))[0];
    },
    heartbeat: (ids: string[]) => sendHeartbeat(services.db, "emails", workerId, ids),
    releaseStale: () => releaseStale(services.db, "emails"),
    /** Makes the attempt, and records its outcome. */
    attempt: async (row: Claimed) => channel.record([await attempt(channel, row, SILENT)]),
    isLastAttempt: ({ attempts }: Claimed) => attempts >= channel.maxAttempts,
    markFailed: ({ id }: Claimed, reason: string, isFinal: boolean) =>
      channel.record([{ id, state: isFinal ? "failed" : "retrying", reason }]),
    markSent: ({ id }: Claimed) => channel.record([{ id, state: "sent", reason: null }]),
  };
}
