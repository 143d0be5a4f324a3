/** Values per minute by series, in the notation of promtool: `0+5x9` counts to 45, `1x9` stays 1 for ten minutes. */
export type Series = Record<string, string> | Record<string, string>[];

export interface RuleCases {
  /** The alert fires from this minute on, and not in the minute before. */
  fires: [name: string, series: Series, fromMinute: number][];
  /** The alert does not fire within two hours. */
  silent: [name: string, series: Series][];
}

const DATABASE_UP = { guest_forms_database_up: "1x240" };
const DATABASE_DOWN = { guest_forms_database_up: "0x240" };
const databaseUp = (instance: string, values: string) => ({
  [`guest_forms_database_up{instance="${instance}"}`]: values,
});
const requests = (status: number, values: string) => ({
  [`guest_forms_requests_total{operation="forms.create",status="${status}"}`]: values,
});
const attempts = (outcome: string, values: string) => ({
  [`guest_forms_email_attempts_total{outcome="${outcome}"}`]: values,
});
const failed = (values: string) => ({ 'guest_forms_emails{state="failed"}': values });
const heartbeat = (sends: boolean, values: string) => ({
  [`guest_forms_worker_heartbeat_age_seconds{sends="${sends}"}`]: values,
});
const up = (values: string) => ({ 'up{job="guest-forms",instance="one"}': values });
const starts = (values: string) => ({ 'process_start_time_seconds{job="guest-forms"}': values });
const lag = (values: string, job = "guest-forms") => ({
  [`nodejs_eventloop_lag_p99_seconds{job="${job}"}`]: values,
});
const databaseErrors = (kind: string, values: string) => ({
  [`guest_forms_database_errors_total{class="${kind}"}`]: values,
});
const rejections = (values: string) => ({ guest_forms_holder_rejections_total: values });
const refusals = (limit: string, values: string) => ({
  [`guest_forms_rate_limit_refusals_total{limit="${limit}"}`]: values,
});
const longestWait = (values: string) => ({ guest_forms_emails_longest_wait_seconds: values });
const longestDelivery = (values: string) => ({ guest_forms_webhook_deliveries_longest_wait_seconds: values });
const endpoints = (state: string, values: string) => ({
  [`guest_forms_webhook_endpoints{state="${state}"}`]: values,
});
const lastRetention = (values: string) => ({ guest_forms_retention_last_run_timestamp_seconds: values });
const build = (labels: string, values: string) => ({ [`guest_forms_build_info{${labels}}`]: values });
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
      ["a gateway does not answer", up("1x9 0x240"), 11],
      ["there is no gateway to scrape", { 'up{job="other"}': "1x240" }, 1],
    ],
    silent: [
      ["a gateway answers", up("1x240")],
      ["one scrape fails", up("1x9 0 1x240")],
    ],
  },
  GuestFormsRestarting: {
    fires: [["a process is started three times in ten minutes", starts("1x9 2 2 3 3 4x240"), 14]],
    silent: [
      ["a process is restarted once", starts("1x9 2x240")],
      ["there is one process", up("1x240")],
    ],
  },
  GuestFormsErrors: {
    fires: [["6 % fail", [requests(200, "0+94x240"), requests(500, "0+1x240"), requests(503, "0+5x240")], 6]],
    silent: [
      ["4 % fail", [requests(200, "0+96x240"), requests(503, "0+4x240")]],
      [
        "a key holder sends too many at a time",
        [requests(200, "0+9x240"), requests(503, "0+9x240"), rejections("0+9x240")],
      ],
      ["all are rejected", [requests(400, "0+9x240"), requests(429, "0+9x240")]],
      ["all fail for 3 minutes", [requests(200, "0x3 0+9x240"), requests(503, "0 9 18 27 27x240")]],
      ["there are no requests", [requests(200, "7x240"), requests(500, "0x240")]],
      ["nothing was requested yet", {}],
    ],
  },
  GuestFormsBugs: {
    fires: [
      ["one request fails with 500", requests(500, "0x9 1x240"), 10],
      ["one statement fails", databaseErrors("fault", "0x9 1x240"), 10],
    ],
    silent: [
      ["a failure is older than the process", requests(500, "3x240")],
      ["requests get 503", requests(503, "0+9x240")],
      [
        "statements conflict or meet an outage",
        [databaseErrors("conflict", "0+9x240"), databaseErrors("unavailable", "0+9x240")],
      ],
    ],
  },
  GuestFormsSlow: {
    fires: [["2 % take longer than 1 s", latency("forms.list", 98), 11]],
    silent: [
      ["1 % take longer than 1 s", latency("forms.list", 99)],
      ["the operator's commands are slow", latency("people.erase", 0)],
      ["there are no requests", {}],
    ],
  },
  GuestFormsEventLoopLag: {
    fires: [["the lag is 101 ms", lag("0.101x240"), 5]],
    silent: [
      ["the lag is 100 ms", lag("0.1x240")],
      ["the lag is long for 4 minutes", lag("0.01x9 3x3 0.01x240")],
      ["another program is slow", lag("3x240", "other")],
    ],
  },
  GuestFormsDatabaseUnreachable: {
    fires: [
      ["the database answers one of two gateways", [databaseUp("one", "1x240"), databaseUp("two", "1x9 0x240")], 11],
    ],
    silent: [
      ["Postgres restarts during one scrape", { guest_forms_database_up: "1x9 0 1x240" }],
      ["the gateway is not scraped", {}],
    ],
  },
  GuestFormsDatabaseNotWritable: {
    fires: [["the database can be read only", { ...DATABASE_UP, guest_forms_database_writable: "1x9 0x240" }, 11]],
    silent: [
      ["a write fails once", { ...DATABASE_UP, guest_forms_database_writable: "1x9 0 1x240" }],
      ["the database is unreachable", { ...DATABASE_DOWN, guest_forms_database_writable: "0x240" }],
    ],
  },
  GuestFormsPoolExhausted: {
    fires: [["requests wait", { guest_forms_pool_waiting_requests: "0x9 1x240" }, 12]],
    silent: [
      ["requests wait for a moment", { guest_forms_pool_waiting_requests: "0x9 50 50 0x240" }],
      ["all connections are busy", { 'guest_forms_pool_connections{state="busy"}': "10x240" }],
    ],
  },
  GuestFormsHolderLimited: {
    fires: [["requests of a key holder are rejected for five minutes", rejections("0x9 0+5x240"), 16]],
    silent: [
      ["some are rejected once", rejections("0x9 50x240")],
      ["requests wait", { guest_forms_holder_waiting_requests: "9x240" }],
    ],
  },
  GuestFormsRedisUnreachable: {
    fires: [["Redis is lost", { guest_forms_redis_up: "1x9 0x240" }, 12]],
    silent: [
      ["Redis restarts", { guest_forms_redis_up: "1x9 0 0 1x240" }],
      ["REDIS_URL is not set", up("1x240")],
    ],
  },
  GuestFormsKeyGuessing: {
    fires: [
      ["an address exceeds BAD_KEY_LIMIT_MAX", refusals("bad_key", "0x9 1x240"), 10],
      ["many addresses send 101 invalid keys a minute", requests(401, "0x9 0+101x240"), 15],
    ],
    silent: [
      ["100 requests a minute have an invalid key", requests(401, "0+100x240")],
      ["clients exceed the rate limits of their keys", [refusals("key", "0+999x240"), refusals("bad_key", "0x240")]],
    ],
  },
  GuestFormsNoWorker: {
    fires: [
      ["the last heartbeat is 61 s old", [DATABASE_UP, heartbeat(true, "1x9 61x240")], 12],
      ["there was never a heartbeat", DATABASE_UP, 2],
      ["no worker has SMTP_URL", [DATABASE_UP, heartbeat(false, "1x240")], 2],
    ],
    silent: [
      ["the last heartbeat is 60 s old", [DATABASE_UP, heartbeat(true, "60x240")]],
      ["the database is unreachable", DATABASE_DOWN],
      ["no gateway is scraped", {}],
    ],
  },
  GuestFormsEmailsWaiting: {
    fires: [["an email waits for 301 s", longestWait("0x9 301x240"), 12]],
    silent: [
      ["an email waits for 300 s", longestWait("300x240")],
      ["the database is unreachable", DATABASE_DOWN],
    ],
  },
  GuestFormsEmailsRetrying: {
    fires: [
      ["more attempts fail than succeed", [attempts("retrying", "0+11x240"), attempts("sent", "0+10x240")], 16],
      ["workers crash at every attempt", [attempts("crashed", "0+1x240"), attempts("sent", "0x240")], 16],
    ],
    silent: [
      ["every email is sent at the second attempt", [attempts("retrying", "0+10x240"), attempts("sent", "0+10x240")]],
      ["emails expire", [attempts("expired", "0+10x240"), attempts("sent", "0x240")]],
      ["no email is sent", [attempts("retrying", "5x240"), attempts("sent", "9x240")]],
      [
        "the mail server fails for 10 minutes",
        [attempts("retrying", "0x9 0+5x2 10x240"), attempts("sent", "0x12 0+10x240")],
      ],
      ["the database is unreachable", DATABASE_DOWN],
    ],
  },
  GuestFormsEmailsFailed: {
    fires: [["one more email failed", failed("3x9 4x240"), 10]],
    silent: [
      ["emails failed earlier", failed("3x240")],
      ["failed emails are retried", failed("5x9 4x9 0x240")],
      ["the database is unreachable", DATABASE_DOWN],
    ],
  },
  GuestFormsWebhooksWaiting: {
    fires: [["a delivery waits for 301 s", longestDelivery("0x9 301x240"), 12]],
    silent: [
      ["a delivery waits for 300 s", longestDelivery("300x240")],
      ["an endpoint fails", [longestDelivery("0x240"), endpoints("failing", "1x240")]],
      ["the database is unreachable", DATABASE_DOWN],
    ],
  },
  GuestFormsWebhookDisabled: {
    fires: [["one more endpoint was disabled", endpoints("disabled", "3x9 4x240"), 10]],
    silent: [
      ["endpoints were disabled earlier", endpoints("disabled", "3x240")],
      ["an endpoint is enabled again", endpoints("disabled", "3x9 2x240")],
      ["endpoints fail", [endpoints("disabled", "0x240"), endpoints("failing", "0x9 5x240")]],
      ["the database is unreachable", DATABASE_DOWN],
    ],
  },
  GuestFormsRetentionOverdue: {
    fires: [
      ["the last run was more than two hours ago", [DATABASE_UP, lastRetention("0x240")], 126],
      ["there was never a run", DATABASE_UP, 5],
    ],
    silent: [
      ["it runs every hour", [DATABASE_UP, lastRetention("0x59 3600x59 7200x240")]],
      ["the database is unreachable", DATABASE_DOWN],
    ],
  },
  GuestFormsMixedVersions: {
    fires: [
      [
        "two versions run for an hour",
        [build('version="1",instance="one"', "1x240"), build('version="2",instance="two"', "1x240")],
        60,
      ],
    ],
    silent: [
      [
        "an upgrade takes half an hour",
        [build('version="1",instance="one"', "1x30 _x240"), build('version="2",instance="two"', "1x240")],
      ],
      [
        "one version runs on two versions of Node.js",
        [build('version="1",node="v22"', "1x240"), build('version="1",node="v24"', "1x240")],
      ],
    ],
  },
};
