import { Registry } from "prom-client";
import type { Services } from "../../server/access/context.js";
import { classify } from "../../server/database/failures.js";
import { RETENTION_TABLES } from "../../server/database/retention.js";
import { type Activity, readActivity } from "../../server/outbox/activity.js";
import { readDeliveryFigures, readEmailFigures } from "../../server/outbox/figures.js";
import { waitAtMost } from "../../server/timeout.js";
import type { Readiness } from "../runtime/readiness.js";
import { metricsOf } from "./metrics.js";

const OUTCOMES = ["sent", "retrying", "failed", "expired", "crashed"] as const;
const DELIVERY_OUTCOMES = [...OUTCOMES, "out_of_scope"] as const;
/** Less than the 10 s after which Prometheus ends a scrape by default. */
const TIMEOUT_SECONDS = 5;

/**
 * The metrics read from the database, the same for all processes. While the database is unreachable it only reports
 * that, so that the other metrics are still reported.
 */
export async function readDatabaseMetrics({ db }: Services, readiness: Readiness): Promise<Registry> {
  const registry = new Registry();
  let facts: Facts | undefined;
  let isUp = false;
  const reading = readFacts(db).then((read) => {
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
  const { watch } = metricsOf(registry);
  watch("database_up", "1 if the database answers, 0 if it is unreachable", () => Number(isUp));
  watch("database_writable", "1 if the database accepts writes, else 0", () => Number(isWritable));
  if (facts) report(facts, registry);
  return registry;
}

async function readFacts(db: Services["db"]) {
  const [emails, deliveries, activity] = await Promise.all([
    readEmailFigures(db),
    readDeliveryFigures(db),
    readActivity(db),
  ]);
  return { emails, deliveries, activity };
}

type Facts = Awaited<ReturnType<typeof readFacts>>;

function report({ emails, deliveries, activity }: Facts, registry: Registry): void {
  const { counter, watch } = metricsOf(registry);
  const count = <Value extends string>(
    [name, help, label]: [name: string, help: string, label: string],
    values: readonly Value[],
    activityOf: (value: Value) => Activity,
  ) => {
    const counted = counter(name, help, label);
    // Start at 0: Prometheus misses the first increase of a counter that was absent.
    for (const value of values) counted.inc({ [label]: value }, activity.get(activityOf(value))?.count ?? 0);
  };

  watch("emails", "Emails not sent, by state", () => emails.counts, "state");
  const emailWait = "Seconds since the oldest waiting email became due; 0 if none is due";
  watch("emails_longest_wait_seconds", emailWait, () => emails.longestWait);
  const emailOutcomes = "Attempts to send an email, by outcome (sent, retrying, failed, expired, crashed)";
  count(["email_attempts_total", emailOutcomes, "outcome"], OUTCOMES, (outcome) => `email.${outcome}`);

  const { waiting, running, longestWait, endpoints, failing, disabled } = deliveries;
  const unended = "Webhook deliveries that have not ended, by state";
  watch("webhook_deliveries", unended, () => ({ waiting, running }), "state");
  const deliveryWait =
    "Seconds since the oldest waiting delivery to an endpoint that does not fail became due; 0 if none is due";
  watch("webhook_deliveries_longest_wait_seconds", deliveryWait, () => longestWait);
  const deliveryOutcomes =
    "Attempts to send a webhook delivery, by outcome (sent, retrying, failed, expired, crashed, out_of_scope)";
  const ofDelivery = (outcome: (typeof DELIVERY_OUTCOMES)[number]) => `delivery.${outcome}` as const;
  count(["webhook_delivery_attempts_total", deliveryOutcomes, "outcome"], DELIVERY_OUTCOMES, ofDelivery);
  const byState = () => ({ enabled: endpoints - failing, failing, disabled });
  watch("webhook_endpoints", "Webhook endpoints, by state (enabled, failing, disabled)", byState, "state");

  const heartbeat =
    "Seconds since the last heartbeat of any worker, by whether it sends mail; absent if there was none";
  const ages = { true: activity.get("worker.with_mailer")?.age, false: activity.get("worker.without_mailer")?.age };
  watch("worker_heartbeat_age_seconds", heartbeat, () => ages, "sends");
  const retention = activity.get("retention.run")?.lastAt;
  const lastRun = "Unix time of the end of the last retention run; absent before the first one";
  if (retention) watch("retention_last_run_timestamp_seconds", lastRun, () => retention);
  const deleted = "Rows deleted because they were past their retention, by table";
  count(["retention_deleted_rows_total", deleted, "table"], RETENTION_TABLES, (table) => `deleted.${table}`);
}
