import type { Registry } from "prom-client";
import type { Services } from "../../server/access/context.js";
import { type Activity, type ActivityCount, readActivity } from "../../server/background/activity.js";
import { OPERATIONS } from "../operations/operations.js";
import type { Minute, Outcomes } from "./schema.js";

const MINUTE_MS = 60_000;
const MAX_MINUTES = 60;

/** The counters at one moment. */
interface Sample {
  at: string;
  requests: number;
  errors: number;
  refused: number;
  /** Requests that took at most `seconds`, in ascending order. */
  durations: { seconds: number; requests: number }[];
  /** Undefined if the database did not answer. */
  activity: Map<Activity, ActivityCount> | undefined;
}

export type History = ReturnType<typeof keepHistory>;

/** Records what this process served, and what all workers sent, in each of the last 60 minutes, in memory. */
export function keepHistory({ db }: Services, registry: Registry) {
  const takeSample = async () => ({
    at: new Date().toISOString(),
    ...(await readRequests(registry)),
    activity: await readActivity(db).catch(() => undefined),
  });
  const samples: Promise<Sample>[] = [takeSample()];
  const timer = setInterval(() => {
    samples.push(takeSample());
    if (samples.length > MAX_MINUTES) samples.shift();
  }, MINUTE_MS).unref();
  return {
    /** Oldest first. The last minute is the one in progress. */
    async read(): Promise<Minute[]> {
      const all = await Promise.all([...samples, takeSample()]);
      return all.slice(1).map((sample, index) => difference(all[index] ?? sample, sample));
    },
    stop: () => clearInterval(timer),
  };
}

/** The values of a metric of the service; those of a histogram have a `le` label, and its sum and count have none. */
async function readMetric(registry: Registry, name: string) {
  const metric = await registry.getSingleMetric(`guest_forms_${name}`)?.get();
  return (metric?.values ?? []) as { value: number; labels: Record<string, string | number> }[];
}

const sum = (values: { value: number }[]) => values.reduce((total, { value }) => total + value, 0);

const PUBLIC: ReadonlySet<unknown> = new Set(OPERATIONS.map(({ name }) => name));

/** Of the public operations. */
async function readRequests(registry: Registry): Promise<Omit<Sample, "at" | "activity">> {
  const [all, refusals, durations] = await Promise.all([
    readMetric(registry, "requests_total"),
    readMetric(registry, "rate_limit_refusals_total"),
    readMetric(registry, "request_duration_seconds"),
  ]);
  const requests = all.filter(({ labels }) => PUBLIC.has(labels.operation));
  const buckets = new Map<number, number>();
  for (const { value, labels } of durations) {
    if (labels.le === undefined || !PUBLIC.has(labels.operation)) continue;
    const seconds = labels.le === "+Inf" ? Number.POSITIVE_INFINITY : Number(labels.le);
    buckets.set(seconds, (buckets.get(seconds) ?? 0) + value);
  }
  return {
    requests: sum(requests),
    errors: sum(requests.filter(({ labels }) => Number(labels.status) >= 500)),
    refused: sum(refusals),
    durations: [...buckets].map(([seconds, count]) => ({ seconds, requests: count })),
  };
}

function difference(from: Sample, to: Sample): Minute {
  const before = new Map(from.durations.map(({ seconds, requests }) => [seconds, requests]));
  const durations = to.durations.map(({ seconds, requests }) => ({
    seconds,
    requests: requests - (before.get(seconds) ?? 0),
  }));
  return {
    at: from.at,
    requests: to.requests - from.requests,
    errors: to.errors - from.errors,
    refused: to.refused - from.refused,
    p50Ms: quantile(0.5, durations),
    p99Ms: quantile(0.99, durations),
    emails: outcomes("notification", from, to),
    deliveries: outcomes("delivery", from, to),
  };
}

function outcomes(kind: "notification" | "delivery", from: Sample, to: Sample): Outcomes | null {
  const { activity: before } = from;
  const { activity: after } = to;
  if (!before || !after) return null;
  const count = (outcome: keyof Outcomes) => {
    const name = `${kind}.${outcome}` as const;
    // Lower if the database was restored meanwhile.
    return Math.max(0, (after.get(name)?.count ?? 0) - (before.get(name)?.count ?? 0));
  };
  return { sent: count("sent"), failed: count("failed"), retrying: count("retrying") };
}

/** Interpolates linearly in the bucket of the quantile, as Prometheus does. Null without requests. */
function quantile(share: number, durations: Sample["durations"]): number | null {
  const rank = share * (durations.at(-1)?.requests ?? 0);
  if (rank === 0) return null;
  let lower = { seconds: 0, requests: 0 };
  for (const bucket of durations) {
    if (bucket.requests >= rank && bucket.seconds < Number.POSITIVE_INFINITY) {
      const position = (rank - lower.requests) / (bucket.requests - lower.requests);
      return Math.round((lower.seconds + position * (bucket.seconds - lower.seconds)) * 100_000) / 100;
    }
    if (bucket.seconds < Number.POSITIVE_INFINITY) lower = bucket;
  }
  return lower.seconds * 1000;
}
