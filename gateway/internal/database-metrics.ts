import { Counter, Gauge, Registry } from "prom-client";
import { createContext, type Services } from "../../server/context.js";
import { classify } from "../../server/failures.js";
import { countNotifications, longestWait } from "../../server/notifications/list.js";
import { waitAtMost } from "../../server/timeout.js";
import { RETENTION_TABLES, readActivity } from "../../server/worker-activity.js";
import { type MetricsSnapshot, PREFIX } from "./metrics.js";

const OUTCOMES = ["sent", "retrying", "failed", "crashed"] as const;
const WORKERS = { true: "worker.sending", false: "worker.waiting" } as const;
/** Less than the 10 s after which Prometheus ends a scrape by default. */
const TIMEOUT_SECONDS = 5;

/**
 * The metrics read from the database. They are the same for all processes, so they are read once per scrape, not once
 * per process. While the database is unreachable it only reports that, so that the other metrics are still reported.
 */
export async function readDatabaseMetrics(services: Services): Promise<MetricsSnapshot> {
  const registry = new Registry();
  let facts: Facts | undefined;
  let isUp = false;
  const reading = readFacts(services).then((read) => {
    facts = read;
    isUp = true;
  });
  await waitAtMost(TIMEOUT_SECONDS, reading).catch((error) => {
    isUp = classify(error) !== "unavailable";
  });
  new Gauge({
    name: `${PREFIX}database_up`,
    help: "1 if the database answers, 0 if it is unreachable",
    registers: [registry],
  }).set(isUp ? 1 : 0);
  if (facts) report(facts, registry);
  return registry.getMetricsAsJSON();
}

type Facts = Awaited<ReturnType<typeof readFacts>>;

async function readFacts(services: Services) {
  const context = createContext(services, { kind: "operator" });
  const [counts, wait, activity] = await Promise.all([
    countNotifications(context),
    longestWait(context),
    readActivity(services.db),
  ]);
  return { counts, wait, activity };
}

function report({ counts, wait, activity }: Facts, registry: Registry): void {
  const registers = [registry];
  const unsent = new Gauge({
    name: `${PREFIX}notifications`,
    help: "Notifications not sent yet, by state",
    labelNames: ["state"],
    registers,
  });
  for (const [state, count] of Object.entries(counts)) unsent.set({ state }, count);
  new Gauge({
    name: `${PREFIX}notifications_longest_wait_seconds`,
    help: "Seconds since the oldest waiting notification became due; 0 if none is due",
    registers,
  }).set(wait);
  const attempts = new Counter({
    name: `${PREFIX}notification_attempts_total`,
    help: "Attempts to send a notification, by outcome (sent, retrying, failed, crashed)",
    labelNames: ["outcome"],
    registers,
  });
  // Start at 0: Prometheus misses the first increase of a counter that was absent.
  for (const outcome of OUTCOMES)
    attempts.inc({ outcome }, activity.get(`notification.${outcome}`)?.count ?? 0);
  const heartbeat = new Gauge({
    name: `${PREFIX}worker_heartbeat_age_seconds`,
    help: "Seconds since the last heartbeat of any worker, by whether it sends mail; absent if there was none",
    labelNames: ["sends"],
    registers,
  });
  for (const [sends, name] of Object.entries(WORKERS)) {
    const age = activity.get(name)?.age;
    if (age !== undefined) heartbeat.set({ sends }, age);
  }
  const retention = activity.get("retention.run");
  if (retention) {
    new Gauge({
      name: `${PREFIX}retention_last_run_timestamp_seconds`,
      help: "Unix time of the end of the last retention run; absent before the first one",
      registers,
    }).set(retention.lastAt);
  }
  const deleted = new Counter({
    name: `${PREFIX}retention_deleted_rows_total`,
    help: "Rows deleted because they were past their retention, by table",
    labelNames: ["table"],
    registers,
  });
  for (const table of RETENTION_TABLES) deleted.inc({ table }, activity.get(`deleted.${table}`)?.count ?? 0);
}
