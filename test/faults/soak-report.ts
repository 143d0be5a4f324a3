import type { ResponseSample, SentCreate } from "./postgres-traffic.js";
import type { InjectedFault } from "./soak-fault-injector.js";
import type { ProcessMemory } from "./soak-memory.js";
import type { ReceivedEmail } from "./soak-processes.js";

export interface Report {
  minutes: number;
  seed: number;
  perSecond: number;
  redis: string;
  requests: number;
  /** Responses by status; `connectionErrors` are requests that a fault interrupted. */
  outcomes: Record<string, number>;
  /** Of all responses, also during faults. */
  latencyMs: { p50: number; p99: number; max: number };
  faults: Record<string, number>;
  creates: number;
  updates: { sent: number; acknowledged: number };
  forms: number;
  auditEntries: number;
  emails: { expected: number; received: number; repeatedByKills: number };
  memory: ProcessMemory[];
  /** Empty if every guarantee held. */
  violations: string[];
}

export function latencyOf(samples: ResponseSample[]): Report["latencyMs"] {
  const sorted = samples
    .map(({ sentAt, receivedAt }) => receivedAt - sentAt)
    .sort((one, other) => one - other);
  const at = (fraction: number) =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? 0);
  return { p50: at(0.5), p99: at(0.99), max: at(1) };
}

/** Counts equal values. */
export function countValues(values: readonly (string | number)[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const value of values) counts[value] = (counts[value] ?? 0) + 1;
  return counts;
}

/** A worker records the outcome within this time after the mail server accepted the email, unless Postgres is down. */
const RECORD_OUTCOME_SECONDS = 5;
/** A worker reconnects to Postgres within this time. */
const RECONNECT_SECONDS = 3;

/**
 * Checks that each form with a guest email got one email at that address, and that no other email arrived. An email may
 * be repeated if its worker was killed after the mail server accepted it and before the outcome was recorded.
 */
export function checkEmails(
  received: ReceivedEmail[],
  creates: SentCreate[],
  faults: InjectedFault[],
  startedAt: number,
): { expected: number; repeatedByKills: number; violations: string[] } {
  const violations: string[] = [];
  const kills = faults.filter(({ kind }) => kind === "worker killed");
  const arrived = new Map<string, ReceivedEmail[]>();
  for (const email of received)
    arrived.set(email.messageId, [...(arrived.get(email.messageId) ?? []), email]);
  const notified = creates.filter(({ body }) => body.guestEmail);
  let repeatedByKills = 0;
  for (const { form, body } of notified) {
    const messageId = `<form-${form?.id}@guest-forms>`;
    const emails = arrived.get(messageId) ?? [];
    arrived.delete(messageId);
    if (emails.length === 0) violations.push(`the email of the form ${form?.id} never arrived`);
    if (emails.some(({ to }) => to !== body.guestEmail))
      violations.push(`the email of the form ${form?.id} went to another address`);
    for (const { at } of emails.slice(0, -1)) {
      const seconds = (at - startedAt) / 1_000;
      const isExcused = kills.some(
        (kill) =>
          seconds < kill.endedAt &&
          kill.startedAt - seconds - downtimeSeconds(seconds, kill.startedAt, faults) <
            RECORD_OUTCOME_SECONDS,
      );
      if (isExcused) repeatedByKills++;
      else violations.push(`the email of the form ${form?.id} arrived at ${timesOf(emails, startedAt)}`);
    }
  }
  for (const messageId of arrived.keys()) violations.push(`an unexpected email arrived: ${messageId}`);
  return { expected: notified.length, repeatedByKills, violations };
}

/** The memory of processes with a shorter lifetime is not printed. */
const MIN_LIFETIME_SECONDS = 30;

const timesOf = (emails: ReceivedEmail[], startedAt: number) =>
  emails.map(({ at }) => `${((at - startedAt) / 1_000).toFixed(1)} s`).join(" and at ");

/** Seconds of this interval in which a worker could not reach Postgres. */
function downtimeSeconds(from: number, to: number, faults: InjectedFault[]): number {
  return faults
    .filter(({ kind }) => kind.includes("Postgres"))
    .map((fault) => Math.min(to, fault.endedAt + RECONNECT_SECONDS) - Math.max(from, fault.startedAt))
    .reduce((sum, seconds) => sum + Math.max(0, seconds), 0);
}

function memoryLine({ name, pid, seconds, lastMb, maxMb, trend }: ProcessMemory): string {
  const line = `  ${name} (process ${pid}, ${seconds} s): ${lastMb} MB at the end, ${maxMb} MB maximum`;
  if (!trend) return line;
  const { mbPerMinute, quarterMinimaMb } = trend;
  return `${line}; after the warm-up: ${mbPerMinute} MB per minute, minimum per quarter ${quarterMinimaMb.join(", ")} MB`;
}

export function printReport(report: Report): void {
  const { outcomes, latencyMs, emails, updates } = report;
  const formatCounts = (counts: Record<string, number>) =>
    Object.entries(counts)
      .map(([value, count]) => `${value} ${count}`)
      .join(", ");
  const memory = report.memory.filter(({ seconds }) => seconds >= MIN_LIFETIME_SECONDS).map(memoryLine);
  console.log(
    [
      `Soak of ${report.minutes} minutes, seed ${report.seed}, ${report.perSecond} requests per second, Redis: ${report.redis}`,
      `Requests: ${report.requests}; responses: ${formatCounts(outcomes)}`,
      `Latency, including faults: p50 ${latencyMs.p50} ms, p99 ${latencyMs.p99} ms, maximum ${latencyMs.max} ms`,
      `Faults: ${formatCounts(report.faults)}`,
      `Creates acknowledged: ${report.creates}; forms: ${report.forms}; updates acknowledged: ${updates.acknowledged} of ${updates.sent}; audit entries: ${report.auditEntries}`,
      `Emails: ${emails.received} for ${emails.expected} notifications, ${emails.repeatedByKills} repeated because the worker was killed`,
      "Memory:",
      ...memory,
      report.violations.length === 0
        ? "Violations: none"
        : `Violations: ${report.violations.length}\n  ${report.violations.slice(0, 50).join("\n  ")}`,
    ].join("\n"),
  );
}
