import { Registry } from "prom-client";
import type { Services } from "../../server/access/context.js";
import { classify } from "../../server/database/failures.js";
import { RETENTION_TABLES } from "../../server/database/retention.js";
import { readActivity } from "../../server/outbox/activity.js";
import { readDeliveryFigures, readEmailFigures } from "../../server/outbox/figures.js";
import { waitAtMost } from "../../server/timeout.js";
import type { Readiness } from "../runtime/readiness.js";
import { metricsOf } from "./metrics.js";

const OUTCOMES = ["sent", "retrying", "failed", "expired", "crashed"] as const;
const DELIVERY_OUTCOMES = [...OUTCOMES, "out_of_scope"] as const;
const WORKERS = { true: "worker.with_mailer", false: "worker.without_mailer" } as const;
/** Less than the 10 s after which Prometheus ends a scrape by default. */
const TIMEOUT_SECONDS = 5;

/**
 * The metrics read from the database, the same for all processes. While the database is unreachable it only reports
 * that, so that the other metrics are still reported.
 */
export async function readDatabaseMetrics(services: Services, readiness: Readiness): Promise<Registry> {
  const registry = new Registry();
  let facts: Facts | undefined;
  let isUp = false;
  const reading = readFacts(services).then((read) => {
    facts = read;
    isUp = true;
  });
  const untilRead = waitAtMost(TIMEOUT_SECONDS, reading).catch((error) => {
    isUp = classify(error) !== "unavailable";
  });
  let isWritable = false;
  const examining = readiness.examine().then(({ problem, writeProblem }) => {
    isWritable = !problem && !writeProblem;
  });
  await Promise.all([untilRead, waitAtMost(TIMEOUT_SECONDS, examining)]);
  const { gauge } = metricsOf(registry);
  gauge("database_up", "1 if the database answers, 0 if it is unreachable").set(isUp ? 1 : 0);
  gauge("database_writable", "1 if the database accepts writes, else 0").set(isWritable ? 1 : 0);
  if (facts) report(facts, registry);
  return registry;
}

type Facts = Awaited<ReturnType<typeof readFacts>>;

async function readFacts(services: Services) {
  const { db } = services;
  const [emails, deliveries, activity] = await Promise.all([
    readEmailFigures(db),
    readDeliveryFigures(db),
    readActivity(db),
  ]);
  return { emails, deliveries, activity };
}

function report(facts: Facts, registry: Registry): void {
  const { activity } = facts;
  const { counter, gauge } = metricsOf(registry);
  reportEmails(facts, registry);
  reportWebhooks(facts, registry);
  const heartbeat = gauge(
    "worker_heartbeat_age_seconds",
    "Seconds since the last heartbeat of any worker, by whether it sends mail; absent if there was none",
    "sends",
  );
  for (const [sends, name] of Object.entries(WORKERS)) {
    const age = activity.get(name)?.age;
    if (age !== undefined) heartbeat.set({ sends }, age);
  }
  const retention = activity.get("retention.run");
  if (retention) {
    gauge(
      "retention_last_run_timestamp_seconds",
      "Unix time of the end of the last retention run; absent before the first one",
    ).set(retention.lastAt);
  }
  const deleted = counter(
    "retention_deleted_rows_total",
    "Rows deleted because they were past their retention, by table",
    "table",
  );
  for (const table of RETENTION_TABLES) deleted.inc({ table }, activity.get(`deleted.${table}`)?.count ?? 0);
}

function reportEmails({ emails, activity }: Facts, registry: Registry): void {
  const { counter, gauge } = metricsOf(registry);
  const unsent = gauge("emails", "Emails not sent, by state", "state");
  for (const [state, count] of Object.entries(emails.counts)) unsent.set({ state }, count);
  gauge("emails_longest_wait_seconds", "Seconds since the oldest waiting email became due; 0 if none is due").set(
    emails.longestWait,
  );
  const attempts = counter(
    "email_attempts_total",
    "Attempts to send an email, by outcome (sent, retrying, failed, expired, crashed)",
    "outcome",
  );
  // Start at 0: Prometheus misses the first increase of a counter that was absent.
  for (const outcome of OUTCOMES) attempts.inc({ outcome }, activity.get(`email.${outcome}`)?.count ?? 0);
}

function reportWebhooks({ deliveries, activity }: Facts, registry: Registry): void {
  const { counter, gauge } = metricsOf(registry);
  const { waiting, running, longestWait, endpoints, failing, disabled } = deliveries;
  const unsent = gauge("webhook_deliveries", "Webhook deliveries that have not ended, by state", "state");
  for (const [state, count] of Object.entries({ waiting, running })) unsent.set({ state }, count);
  gauge(
    "webhook_deliveries_longest_wait_seconds",
    "Seconds since the oldest waiting delivery to an endpoint that does not fail became due; 0 if none is due",
  ).set(longestWait);
  const attempts = counter(
    "webhook_delivery_attempts_total",
    "Attempts to send a webhook delivery, by outcome (sent, retrying, failed, expired, crashed, out_of_scope)",
    "outcome",
  );
  for (const outcome of DELIVERY_OUTCOMES) attempts.inc({ outcome }, activity.get(`delivery.${outcome}`)?.count ?? 0);
  const byState = gauge("webhook_endpoints", "Webhook endpoints, by state (enabled, failing, disabled)", "state");
  for (const [state, count] of Object.entries({ enabled: endpoints - failing, failing, disabled }))
    byState.set({ state }, count);
}
