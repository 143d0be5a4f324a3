import type { Entry, Sample } from "./postgres-traffic.js";
import type { Fault } from "./soak-faults.js";
import type { MemoryOfProcess } from "./soak-memory.js";
import type { Message } from "./soak-services.js";

export interface Report {
  minutes: number;
  seed: number;
  perSecond: number;
  redis: string;
  requests: number;
  /** How many answers had each status; "broken" are connections that a fault broke. */
  answers: Record<string, number>;
  /** Milliseconds of all answers, faults included. */
  latency: { p50: number; p99: number; most: number };
  faults: Record<string, number>;
  creates: number;
  updates: { sent: number; acknowledged: number };
  forms: number;
  auditEntries: number;
  messages: { expected: number; received: number; repeatedByKills: number };
  memory: MemoryOfProcess[];
  /** Empty: every promise was kept. */
  violations: string[];
}

export function latencyOf(samples: Sample[]): Report["latency"] {
  const sorted = samples.map(({ sentAt, cameAt }) => cameAt - sentAt).sort((one, other) => one - other);
  const at = (part: number) =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0);
  return { p50: at(0.5), p99: at(0.99), most: at(1) };
}

/** How often each kind of fault was made. */
export function tallyOf(faults: Fault[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { what } of faults) counts[what] = (counts[what] ?? 0) + 1;
  return counts;
}

/** Seconds within which a job is done with after its message was taken, unless Postgres is away. */
const DONE_SECONDS = 5;
/** Seconds until a worker has found Postgres again. */
const AWAY_SECONDS = 3;

/**
 * Each form with an address had its message, at that address, and no other message came. One may have come again
 * where the worker was killed after the mail server took it and before the job was done with.
 */
export function judgeMail(
  received: Message[],
  entries: Entry[],
  faults: Fault[],
  began: number,
): { expected: number; repeatedByKills: number; violations: string[] } {
  const violations: string[] = [];
  const kills = faults.filter(({ what }) => what === "worker killed");
  const arrived = new Map<string, Message[]>();
  for (const message of received) arrived.set(message.id, [...(arrived.get(message.id) ?? []), message]);
  const wanted = entries.filter(({ body }) => body.guestEmail);
  let repeatedByKills = 0;
  for (const { form, body } of wanted) {
    const id = `<form-${form?.id}@guest-forms>`;
    const messages = arrived.get(id) ?? [];
    arrived.delete(id);
    if (messages.length === 0) violations.push(`the message of ${form?.id} never came`);
    if (messages.some(({ to }) => to !== body.guestEmail))
      violations.push(`the message of ${form?.id} went to another address`);
    for (const { at } of messages.slice(0, -1)) {
      const seconds = (at - began) / 1_000;
      const isExcused = kills.some(
        ({ from, to }) => seconds < to && from - seconds - awayBetween(seconds, from, faults) < DONE_SECONDS,
      );
      if (isExcused) repeatedByKills++;
      else violations.push(`the message of ${form?.id} came at ${timesOf(messages, began)}`);
    }
  }
  for (const id of arrived.keys()) violations.push(`a message came that nobody asked for: ${id}`);
  return { expected: wanted.length, repeatedByKills, violations };
}

/** What lived for less says nothing of memory. */
const LIFE_SECONDS = 30;

const timesOf = (messages: Message[], began: number) =>
  messages.map(({ at }) => `${((at - began) / 1_000).toFixed(1)} s`).join(" and at ");

/** For how many of these seconds Postgres could not be told that a job is done with. */
function awayBetween(from: number, to: number, faults: Fault[]): number {
  return faults
    .filter(({ what }) => what.includes("Postgres"))
    .map((fault) => Math.min(to, fault.to + AWAY_SECONDS) - Math.max(from, fault.from))
    .reduce((sum, seconds) => sum + Math.max(0, seconds), 0);
}

function memoryLine({ name, pid, seconds, last, most, trend }: MemoryOfProcess): string {
  const line = `  ${name} (process ${pid}, ${seconds} s): ${last} MB at the end, ${most} MB at most`;
  if (!trend) return line;
  const { slope, quarters } = trend;
  return `${line}; after a minute: ${slope} MB a minute, at least ${quarters.join(", ")} MB in each quarter`;
}

export function print(report: Report): void {
  const { answers, latency, messages, updates } = report;
  const list = (counts: Record<string, number>) =>
    Object.entries(counts)
      .map(([what, count]) => `${what} ${count}`)
      .join(", ");
  const memory = report.memory.filter(({ seconds }) => seconds >= LIFE_SECONDS).map(memoryLine);
  console.log(
    [
      `Soak of ${report.minutes} minutes, seed ${report.seed}, ${report.perSecond} requests a second, Redis: ${report.redis}`,
      `Requests: ${report.requests}; answers: ${list(answers)}`,
      `Milliseconds, faults included: ${latency.p50} in the median, ${latency.p99} at p99, ${latency.most} at most`,
      `Faults: ${list(report.faults)}`,
      `Creates acknowledged: ${report.creates}; forms: ${report.forms}; updates acknowledged: ${updates.acknowledged} of ${updates.sent}; audit entries: ${report.auditEntries}`,
      `Messages: ${messages.received} for ${messages.expected} notifications, ${messages.repeatedByKills} repeated where the worker was killed`,
      "Memory:",
      ...memory,
      report.violations.length === 0
        ? "Violations: none"
        : `Violations: ${report.violations.length}\n  ${report.violations.slice(0, 50).join("\n  ")}`,
    ].join("\n"),
  );
}
