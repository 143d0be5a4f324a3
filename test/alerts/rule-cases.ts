/** Values per minute by series, in the notation of promtool: `0+5x9` counts to 45, `1x9` stays 1 for ten minutes. */
type Series = Record<string, string>;

export interface RuleCases {
  /** The alert fires from this minute on, and not in the minute before. */
  fires: { case: string; series: Series; fromMinute: number }[];
  /** The alert does not fire within two hours. */
  silent: { case: string; series: Series }[];
}

const DATABASE_UP = { guest_forms_database_up: "1x240" };
const DATABASE_DOWN = { guest_forms_database_up: "0x240" };
const requests = (status: number, values: string) => ({
  [`guest_forms_requests_total{operation="forms.create",status="${status}"}`]: values,
});
const attempts = (outcome: string, values: string) => ({
  [`guest_forms_notification_attempts_total{outcome="${outcome}"}`]: values,
});
const failed = (values: string) => ({ 'guest_forms_notifications{state="failed"}': values });
const heartbeat = (sends: boolean, values: string) => ({
  [`guest_forms_worker_heartbeat_age_seconds{sends="${sends}"}`]: values,
});
const up = (values: string) => ({ 'up{job="guest-forms",instance="one"}': values });
/** 100 requests per minute, `fast` of which take up to 1 s. */
const latency = (operation: string, fast: number) =>
  Object.fromEntries(
    Object.entries({ "0.5": 90, 1: fast, "2.5": 100, "+Inf": 100 }).map(([le, count]) => [
      `guest_forms_request_duration_seconds_bucket{operation="${operation}",le="${le}"}`,
      `0+${count}x240`,
    ]),
  );

/** By alert. */
export const RULE_CASES: Record<string, RuleCases> = {
  GuestFormsDown: {
    fires: [
      { case: "a gateway does not answer", series: up("1x9 0x240"), fromMinute: 11 },
      { case: "there is no gateway to scrape", series: { 'up{job="other"}': "1x240" }, fromMinute: 1 },
    ],
    silent: [
      { case: "a gateway answers", series: up("1x240") },
      { case: "one scrape fails", series: up("1x9 0 1x240") },
    ],
  },
  GuestFormsRestarting: {
    fires: [
      {
        case: "three processes crash in ten minutes",
        series: { guest_forms_process_crashes_total: "0x9 1 1 2 2 3x240" },
        fromMinute: 14,
      },
      {
        case: "the service is started three times in ten minutes",
        series: { 'process_start_time_seconds{job="guest-forms"}': "1x9 2 2 3 3 4x240" },
        fromMinute: 14,
      },
    ],
    silent: [
      { case: "two processes crash", series: { guest_forms_process_crashes_total: "0x9 1 2x240" } },
      {
        case: "the service is restarted once",
        series: { 'process_start_time_seconds{job="guest-forms"}': "1x9 2x240" },
      },
      { case: "there is one process", series: up("1x240") },
    ],
  },
  GuestFormsErrors: {
    fires: [
      {
        case: "6 % fail",
        series: { ...requests(200, "0+94x240"), ...requests(500, "0+1x240"), ...requests(503, "0+5x240") },
        fromMinute: 6,
      },
    ],
    silent: [
      { case: "4 % fail", series: { ...requests(200, "0+96x240"), ...requests(503, "0+4x240") } },
      {
        case: "a key holder sends too many at a time",
        series: {
          ...requests(200, "0+9x240"),
          ...requests(503, "0+9x240"),
          guest_forms_holder_rejections_total: "0+9x240",
        },
      },
      { case: "all are rejected", series: { ...requests(400, "0+9x240"), ...requests(429, "0+9x240") } },
      {
        case: "all fail for 3 minutes",
        series: { ...requests(200, "0x3 0+9x240"), ...requests(503, "0 9 18 27 27x240") },
      },
      { case: "there are no requests", series: { ...requests(200, "7x240"), ...requests(500, "0x240") } },
      { case: "nothing was requested yet", series: {} },
    ],
  },
  GuestFormsBugs: {
    fires: [
      { case: "one request fails with 500", series: requests(500, "0x9 1x240"), fromMinute: 10 },
      {
        case: "one statement fails",
        series: { 'guest_forms_database_errors_total{class="fault"}': "0x9 1x240" },
        fromMinute: 10,
      },
    ],
    silent: [
      { case: "a failure is older than the process", series: requests(500, "3x240") },
      { case: "requests get 503", series: requests(503, "0+9x240") },
      {
        case: "statements conflict or meet an outage",
        series: {
          'guest_forms_database_errors_total{class="conflict"}': "0+9x240",
          'guest_forms_database_errors_total{class="unavailable"}': "0+9x240",
        },
      },
    ],
  },
  GuestFormsSlow: {
    fires: [{ case: "2 % take longer than 1 s", series: latency("forms.list", 98), fromMinute: 11 }],
    silent: [
      { case: "1 % take longer than 1 s", series: latency("forms.list", 99) },
      { case: "the operator's commands are slow", series: latency("people.erase", 0) },
      { case: "there are no requests", series: {} },
    ],
  },
  GuestFormsEventLoopLag: {
    fires: [
      {
        case: "the lag is 101 ms",
        series: { 'nodejs_eventloop_lag_p99_seconds{job="guest-forms"}': "0.101x240" },
        fromMinute: 5,
      },
    ],
    silent: [
      {
        case: "the lag is 100 ms",
        series: { 'nodejs_eventloop_lag_p99_seconds{job="guest-forms"}': "0.1x240" },
      },
      {
        case: "the lag is long for 4 minutes",
        series: { 'nodejs_eventloop_lag_p99_seconds{job="guest-forms"}': "0.01x9 3x3 0.01x240" },
      },
      {
        case: "another program is slow",
        series: { 'nodejs_eventloop_lag_p99_seconds{job="other"}': "3x240" },
      },
    ],
  },
  GuestFormsDatabaseUnreachable: {
    fires: [
      {
        case: "the database answers one of two gateways",
        series: {
          'guest_forms_database_up{instance="one"}': "1x240",
          'guest_forms_database_up{instance="two"}': "1x9 0x240",
        },
        fromMinute: 11,
      },
    ],
    silent: [
      { case: "Postgres restarts during one scrape", series: { guest_forms_database_up: "1x9 0 1x240" } },
      { case: "the gateway is not scraped", series: {} },
    ],
  },
  GuestFormsPoolExhausted: {
    fires: [
      {
        case: "requests wait",
        series: { guest_forms_pool_waiting_requests: "0x9 1x240" },
        fromMinute: 12,
      },
    ],
    silent: [
      {
        case: "requests wait for a moment",
        series: { guest_forms_pool_waiting_requests: "0x9 50 50 0x240" },
      },
      {
        case: "all connections are busy",
        series: { 'guest_forms_pool_connections{state="busy"}': "10x240" },
      },
    ],
  },
  GuestFormsHolderLimited: {
    fires: [
      {
        case: "requests of a key holder are rejected for five minutes",
        series: { guest_forms_holder_rejections_total: "0x9 0+5x240" },
        fromMinute: 16,
      },
    ],
    silent: [
      { case: "some are rejected once", series: { guest_forms_holder_rejections_total: "0x9 50x240" } },
      { case: "requests wait", series: { guest_forms_holder_waiting_requests: "9x240" } },
    ],
  },
  GuestFormsRedisUnreachable: {
    fires: [{ case: "Redis is lost", series: { guest_forms_redis_up: "1x9 0x240" }, fromMinute: 12 }],
    silent: [
      { case: "Redis restarts", series: { guest_forms_redis_up: "1x9 0 0 1x240" } },
      { case: "REDIS_URL is not set", series: up("1x240") },
    ],
  },
  GuestFormsKeyGuessing: {
    fires: [
      {
        case: "an address exceeds BAD_KEY_LIMIT_MAX",
        series: { 'guest_forms_rate_limit_refusals_total{limit="bad_key"}': "0x9 1x240" },
        fromMinute: 10,
      },
      {
        case: "many addresses send 101 invalid keys a minute",
        series: requests(401, "0x9 0+101x240"),
        fromMinute: 15,
      },
    ],
    silent: [
      { case: "100 requests a minute have an invalid key", series: requests(401, "0+100x240") },
      {
        case: "clients exceed the rate limits of their keys",
        series: {
          'guest_forms_rate_limit_refusals_total{limit="key"}': "0+999x240",
          'guest_forms_rate_limit_refusals_total{limit="bad_key"}': "0x240",
        },
      },
    ],
  },
  GuestFormsNoWorker: {
    fires: [
      {
        case: "the last heartbeat is 61 s old",
        series: { ...DATABASE_UP, ...heartbeat(true, "1x9 61x240") },
        fromMinute: 12,
      },
      { case: "there was never a heartbeat", series: DATABASE_UP, fromMinute: 2 },
      {
        case: "no worker has SMTP_URL",
        series: { ...DATABASE_UP, ...heartbeat(false, "1x240") },
        fromMinute: 2,
      },
    ],
    silent: [
      { case: "the last heartbeat is 60 s old", series: { ...DATABASE_UP, ...heartbeat(true, "60x240") } },
      { case: "the database is unreachable", series: DATABASE_DOWN },
      { case: "no gateway is scraped", series: {} },
    ],
  },
  GuestFormsNotificationsWaiting: {
    fires: [
      {
        case: "an email waits for 301 s",
        series: { guest_forms_notifications_longest_wait_seconds: "0x9 301x240" },
        fromMinute: 12,
      },
    ],
    silent: [
      {
        case: "an email waits for 300 s",
        series: { guest_forms_notifications_longest_wait_seconds: "300x240" },
      },
      { case: "the database is unreachable", series: DATABASE_DOWN },
    ],
  },
  GuestFormsNotificationsRetrying: {
    fires: [
      {
        case: "more attempts fail than succeed",
        series: { ...attempts("retrying", "0+11x240"), ...attempts("sent", "0+10x240") },
        fromMinute: 16,
      },
      {
        case: "workers crash at every attempt",
        series: { ...attempts("crashed", "0+1x240"), ...attempts("sent", "0x240") },
        fromMinute: 16,
      },
    ],
    silent: [
      {
        case: "every email is sent at the second attempt",
        series: { ...attempts("retrying", "0+10x240"), ...attempts("sent", "0+10x240") },
      },
      {
        case: "no email is sent",
        series: { ...attempts("retrying", "5x240"), ...attempts("sent", "9x240") },
      },
      {
        case: "the mail server fails for 10 minutes",
        series: { ...attempts("retrying", "0x9 0+5x2 10x240"), ...attempts("sent", "0x12 0+10x240") },
      },
      { case: "the database is unreachable", series: DATABASE_DOWN },
    ],
  },
  GuestFormsNotificationsFailed: {
    fires: [{ case: "one more email failed", series: failed("3x9 4x240"), fromMinute: 10 }],
    silent: [
      { case: "emails failed earlier", series: failed("3x240") },
      { case: "failed emails are retried", series: failed("5x9 4x9 0x240") },
      { case: "the database is unreachable", series: DATABASE_DOWN },
    ],
  },
  GuestFormsRetentionOverdue: {
    fires: [
      {
        case: "the last run was more than two hours ago",
        series: { ...DATABASE_UP, guest_forms_retention_last_run_timestamp_seconds: "0x240" },
        fromMinute: 126,
      },
      { case: "there was never a run", series: DATABASE_UP, fromMinute: 5 },
    ],
    silent: [
      {
        case: "it runs every hour",
        series: {
          ...DATABASE_UP,
          guest_forms_retention_last_run_timestamp_seconds: "0x59 3600x59 7200x240",
        },
      },
      { case: "the database is unreachable", series: DATABASE_DOWN },
    ],
  },
  GuestFormsMixedVersions: {
    fires: [
      {
        case: "two versions run for an hour",
        series: {
          'guest_forms_build_info{version="1",instance="one"}': "1x240",
          'guest_forms_build_info{version="2",instance="two"}': "1x240",
        },
        fromMinute: 60,
      },
    ],
    silent: [
      {
        case: "an upgrade takes half an hour",
        series: {
          'guest_forms_build_info{version="1",instance="one"}': "1x30 _x240",
          'guest_forms_build_info{version="2",instance="two"}': "1x240",
        },
      },
      {
        case: "one version runs on two versions of Node.js",
        series: {
          'guest_forms_build_info{version="1",node="v22"}': "1x240",
          'guest_forms_build_info{version="1",node="v24"}': "1x240",
        },
      },
    ],
  },
};
