import type { Registry } from "prom-client";
import type { Services } from "../../server/access/context.js";
import { readActivity } from "../../server/outbox/activity.js";
import { OPERATIONS } from "../operations/operations.js";

const MINUTE_MS = 60_000;
const MAX_MINUTES = 60;

export type History = ReturnType<typeof keepHistory>;

/** Records what this process served, and what all workers sent, in each of the last 60 minutes, in memory. */
export function keepHistory({ db }: Services, registry: Registry) {
  const samples = [takeSample(db, registry)];
  const timer = setInterval(() => {
    samples.push(takeSample(db, registry));
    if (samples.length > MAX_MINUTES) samples.shift();
  }, MINUTE_MS).unref();
  return {
    /** Oldest first. The last minute is in progress. */
    async read() {
      const all = await Promise.all([...samples, takeSample(db, registry)]);
      return all.slice(1).map((sample, index) => toMinute(all[index] ?? sample, sample));
    },
    stop: () => clearInterval(timer),
  };
}

interface Sample {
  at: string;
  /** Cumulative. A number is the upper bound of a bucket of durations, in seconds. */
  counts: Map<string | number, number>;
  isDatabaseUp: boolean;
}

const PUBLIC: ReadonlySet<unknown> = new Set(OPERATIONS.map(({ name }) => name));

async function takeSample(db: Services["db"], registry: Registry): Promise<Sample> {
  const at = new Date().toISOString();
  const read = async (name: string) => (await registry.getSingleMetric(`guest_forms_${name}`)?.get())?.values ?? [];
  const counts: Sample["counts"] = new Map();
  const add = (name: string | number, value: number) => counts.set(name, (counts.get(name) ?? 0) + value);
  for (const { value, labels } of await read("requests_total")) {
    if (!PUBLIC.has(labels.operation)) continue;
    add("requests", value);
    if (Number(labels.status) >= 500) add("errors", value);
  }
  for (const { value } of await read("rate_limit_refusals_total")) add("refused", value);
  for (const { value, labels } of await read("request_duration_seconds")) {
    if (labels.le !== undefined && PUBLIC.has(labels.operation)) add(labels.le, value);
  }
  const activity = await readActivity(db).catch(() => undefined);
  for (const [name, { count }] of activity ?? []) add(name, count);
  return { at, counts, isDatabaseUp: activity !== undefined };
}

function toMinute(from: Sample, to: Sample) {
  // At least 0, because counts of the database are lower after it was restored.
  const added = (name: string | number) => Math.max(0, (to.counts.get(name) ?? 0) - (from.counts.get(name) ?? 0));
  const outcomes = (kind: "email" | "delivery") =>
    from.isDatabaseUp && to.isDatabaseUp
      ? { sent: added(`${kind}.sent`), failed: added(`${kind}.failed`), retrying: added(`${kind}.retrying`) }
      : null;
  const bounds = [...to.counts.keys()].filter((name) => typeof name === "number");
  const buckets = bounds.map((seconds) => ({ seconds, requests: added(seconds) }));
  return {
    /** When the minute began. */
    at: from.at,
    /** Requests of the public operations that this process answered. */
    requests: added("requests"),
    /** Those with status 500 or above. */
    errors: added("errors"),
    /** Requests rejected with 429, for a key or an unknown key. */
    refused: added("refused"),
    /** Null without requests, as `p99Ms`. */
    p50Ms: quantileMs(0.5, buckets, added("+Inf")),
    p99Ms: quantileMs(0.99, buckets, added("+Inf")),
    /** Attempts of all workers; null if the database did not answer. */
    emails: outcomes("email"),
    deliveries: outcomes("delivery"),
  };
}

/** Interpolates linearly in the bucket of the quantile, as Prometheus does. Null without requests. */
function quantileMs(quantile: number, buckets: { seconds: number; requests: number }[], total: number) {
  const rank = quantile * total;
  if (rank === 0) return null;
  let lower = { seconds: 0, requests: 0 };
  for (const upper of buckets) {
    if (upper.requests >= rank) {
      const position = (rank - lower.requests) / (upper.requests - lower.requests);
      return Math.round((lower.seconds + position * (upper.seconds - lower.seconds)) * 100_000) / 100;
    }
    lower = upper;
  }
  return lower.seconds * 1000;
}
