import type { Services } from "../../server/access/context.js";
import { readSettings } from "../../server/config.js";
import { loadTemplates } from "../../server/emails/templates.js";
import { emailChannel } from "../../server/notifications/emails.js";
import type { Mailer } from "../../server/notifications/mailer.js";
import { attempt } from "../../server/outbox/attempt.js";
import { createQueue } from "../../server/outbox/queue.js";

const SILENT = { info() {}, warn() {}, error() {} };

const NO_MAILER: Mailer = { send: async () => {} };
const templates = await loadTemplates(readSettings({}));

/** The emails in the outbox as one worker sees them, one at a time, without its loop. */
export function emailQueue(services: Services, workerId: string, mailer: Mailer = NO_MAILER) {
  const queue = createQueue(services.db, workerId);
  const channel = emailChannel({ services, templates, mailer, queue, log: SILENT });
  type Claimed = Awaited<ReturnType<typeof channel.claim>>[number];
  return {
    ...queue,
    claim: async (): Promise<Claimed | undefined> => (await channel.claim(1, []))[0],
    /** Makes the attempt, and records its outcome. */
    attempt: (row: Claimed) => attempt(channel, row, { log: SILENT, signal: new AbortController().signal }),
    isLastAttempt: ({ attempts }: Claimed) => attempts >= channel.maxAttempts,
    markFailed: (row: Claimed, reason: string, isFinal: boolean) => channel.recordFailure(row, { reason, isFinal }),
  };
}
