import type { Registry } from "prom-client";
import type { Services } from "../../server/access/context.js";
import { readActivity } from "../../server/background/activity.js";
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

const PUBLIC: ReadonlySet<unknown> = new Set(OPERATIONS.map(({ name }) => name));

/** Cumulative counts. */
type Counts<Name extends string> = Record<Name, number>;

interface Sample {
  at: string;
  /** Of the public operations: all requests, those with status 500 or above, and those with 429 for a key or an unknown key. */
  served: Counts<"requests" | "errors" | "refused">;
  /** Requests of the public operations, by the seconds that they took at most. */
  buckets: Counts<string>;
  /** Attempts of all workers; null if the database did not answer. */
  emails: Counts<Outcome> | null;
  deliveries: Counts<Outcome> | null;
}

type Outcome = "sent" | "failed" | "retrying";

async function takeSample(db: Services["db"], registry: Registry): Promise<Sample> {
  const at = new Date().toISOString();
  const read = async (name: string) => (await registry.getSingleMetric(`guest_forms_${name}`)?.get())?.values ?? [];
  const [requests, refusals, durations, activity] = await Promise.all([
    read("requests_total"),
    read("rate_limit_refusals_total"),
    read("request_duration_seconds"),
    readActivity(db).catch(() => null),
  ]);
  const served = { requests: 0, errors: 0, refused: 0 };
  for (const { value, labels } of requests) {
    if (!PUBLIC.has(labels.operation)) continue;
    served.requests += value;
    if (Number(labels.status) >= 500) served.errors += value;
  }
  for (const { value } of refusals) served.refused += value;
  const buckets: Counts<string> = {};
  for (const { value, labels } of durations) {
    // The sum and the count of a histogram have no `le`.
    if (labels.le === undefined || !PUBLIC.has(labels.operation)) continue;
    const seconds = String(labels.le).replace("+Inf", "Infinity");
    buckets[seconds] = (buckets[seconds] ?? 0) + value;
  }
  const outcomes = (kind: "notification" | "delivery") => {
    const count = (outcome: Outcome) => activity?.get(`${kind}.${outcome}`)?.count ?? 0;
    return activity && { sent: count("sent"), failed: count("failed"), retrying: count("retrying") };
  };
  return { at, served, buckets, emails: outcomes("notification"), deliveries: outcomes("delivery") };
}

function toMinute(from: Sample, to: Sample) {
  const buckets = difference(from.buckets, to.buckets);
  return {
    at: from.at,
    ...difference(from.served, to.served),
    p50Ms: quantileMs(0.5, buckets),
    p99Ms: quantileMs(0.99, buckets),
    emails: from.emails && to.emails && difference(from.emails, to.emails),
    deliveries: from.deliveries && to.deliveries && difference(from.deliveries, to.deliveries),
  };
}

/** At least 0: counts of the database are lower after it was restored. */
function difference<Name extends string>(from: Counts<Name>, to: Counts<Name>): Counts<Name> {
  const names = Object.keys(to) as Name[];
  return Object.fromEntries(names.map((name) => [name, Math.max(0, to[name] - (from[name] ?? 0))])) as Counts<Name>;
}

/** Interpolates linearly in the bucket of the quantile, as Prometheus does. Null without requests. */
function quantileMs(share: number, buckets: Counts<string>): number | null {
  const ascending = Object.entries(buckets).sort(([one], [other]) => Number(one) - Number(other));
  const rank = share * (ascending.at(-1)?.[1] ?? 0);
  if (rank === 0) return null;
  let [lower, before] = [0, 0];
  for (const [bound, requests] of ascending) {
    const upper = Number(bound);
    if (upper === Number.POSITIVE_INFINITY) break;
    if (requests >= rank) {
      const seconds = lower + ((rank - before) / (requests - before)) * (upper - lower);
      return Math.round(seconds * 100_000) / 100;
    }
    [lower, before] = [upper, requests];
  }
  return lower * 1000;
}
