export interface RuleCases {
  /** The alert fires from this minute on, and not in the minute before. */
  fires: [name: string, fromMinute: number, ...series: string[]][];
  /** The alert does not fire within two hours. */
  silent: [name: string, ...series: string[]][];
}

const UP = 'up{job="guest-forms",instance="one"}';
const DATABASE_UP = "guest_forms_database_up 1x240";
const DATABASE_DOWN = "guest_forms_database_up 0x240";
const requests = (status: number) => `guest_forms_requests_total{operation="forms.create",status="${status}"}`;
const attempts = (outcome: string) => `guest_forms_email_attempts_total{outcome="${outcome}"}`;
const heartbeat = (sends: boolean) => `guest_forms_worker_heartbeat_age_seconds{sends="${sends}"}`;
const databaseErrors = (kind: string) => `guest_forms_database_errors_total{class="${kind}"}`;
const refusals = (limit: string) => `guest_forms_rate_limit_refusals_total{limit="${limit}"}`;
const endpoints = (state: string) => `guest_forms_webhook_endpoints{state="${state}"}`;
const build = (labels: string) => `guest_forms_build_info{${labels}}`;
const FAILED = 'guest_forms_emails{state="failed"}';
const REJECTIONS = "guest_forms_holder_rejections_total";
const LAG = 'nodejs_eventloop_lag_p99_seconds{job="guest-forms"}';
const STARTS = 'process_start_time_seconds{job="guest-forms"}';
const EMAIL_WAIT = "guest_forms_emails_longest_wait_seconds";
const DELIVERY_WAIT = "guest_forms_webhook_deliveries_longest_wait_seconds";
const RETENTION = "guest_forms_retention_last_run_timestamp_seconds";
const WRITABLE = "guest_forms_database_writable";
const POOL_WAITING = "guest_forms_pool_waiting_requests";
const REDIS = "guest_forms_redis_up";
/** 100 requests per minute, `fast` of which take up to 1 s. */
const latency = (operation: string, fast: number) =>
  Object.entries({ "0.5": 90, 1: fast, "2.5": 100, "+Inf": 100 }).map(
    ([le, count]) => `guest_forms_request_duration_seconds_bucket{operation="${operation}",le="${le}"} 0+${count}x240`,
  );

/** Cases in which every alert is silent, except the one that they are for. */
export const SILENT_FOR_OTHERS: [alert: string, ...RuleCases["silent"][number]][] = [
  ["GuestFormsDown", "nothing is scraped"],
  [
    "GuestFormsDatabaseUnreachable",
    "the database is unreachable, and nothing was requested yet",
    `${UP} 1x240`,
    DATABASE_DOWN,
  ],
];

/**
 * By alert. A series has its values per minute, in the notation of promtool: `0+5x9` counts to 45, `1x9` stays 1 for ten
 * minutes.
 */
export const RULE_CASES: Record<string, RuleCases> = {
  GuestFormsDown: {
    fires: [
      ["a gateway does not answer", 11, `${UP} 1x9 0x240`],
      ["there is no gateway to scrape", 1, 'up{job="other"} 1x240'],
    ],
    silent: [["one scrape fails", `${UP} 1x9 0 1x240`]],
  },
  GuestFormsRestarting: {
    fires: [["a process is started three times in ten minutes", 14, `${STARTS} 1x9 2 2 3 3 4x240`]],
    silent: [["a process is restarted once", `${STARTS} 1x9 2x240`]],
  },
  GuestFormsErrors: {
    fires: [["6 % fail", 6, `${requests(200)} 0+94x240`, `${requests(500)} 0+1x240`, `${requests(503)} 0+5x240`]],
    silent: [
      ["4 % fail", `${requests(200)} 0+96x240`, `${requests(503)} 0+4x240`],
      ["a key holder sends too many", `${requests(200)} 0+9x240`, `${requests(503)} 0+9x240`, `${REJECTIONS} 0+9x240`],
      ["all are rejected", `${requests(400)} 0+9x240`, `${requests(429)} 0+9x240`],
      ["all fail for 3 minutes", `${requests(200)} 0x3 0+9x240`, `${requests(503)} 0 9 18 27 27x240`],
      ["there are no requests", `${requests(200)} 7x240`, `${requests(500)} 0x240`],
    ],
  },
  GuestFormsBugs: {
    fires: [
      ["one request fails with 500", 10, `${requests(500)} 0x9 1x240`],
      ["one statement fails", 10, `${databaseErrors("fault")} 0x9 1x240`],
    ],
    silent: [
      ["a failure is older than the process", `${requests(500)} 3x240`],
      ["requests get 503", `${requests(503)} 0+9x240`],
      [
        "statements conflict or meet an outage",
        `${databaseErrors("conflict")} 0+9x240`,
        `${databaseErrors("unavailable")} 0+9x240`,
      ],
    ],
  },
  GuestFormsSlow: {
    fires: [["2 % take longer than 1 s", 11, ...latency("forms.list", 98)]],
    silent: [
      ["1 % take longer than 1 s", ...latency("forms.list", 99)],
      ["the operator's commands are slow", ...latency("people.erase", 0)],
    ],
  },
  GuestFormsEventLoopLag: {
    fires: [["the lag is 101 ms", 5, `${LAG} 0.101x240`]],
    silent: [
      ["the lag is 100 ms", `${LAG} 0.1x240`],
      ["the lag is long for 4 minutes", `${LAG} 0.01x9 3x3 0.01x240`],
      ["another program is slow", 'nodejs_eventloop_lag_p99_seconds{job="other"} 3x240'],
    ],
  },
  GuestFormsDatabaseUnreachable: {
    fires: [
      [
        "the database answers one of two gateways",
        11,
        'guest_forms_database_up{instance="one"} 1x240',
        'guest_forms_database_up{instance="two"} 1x9 0x240',
      ],
    ],
    silent: [["Postgres restarts during one scrape", "guest_forms_database_up 1x9 0 1x240"]],
  },
  GuestFormsDatabaseNotWritable: {
    fires: [["the database can be read only", 11, DATABASE_UP, `${WRITABLE} 1x9 0x240`]],
    silent: [
      ["a write fails once", DATABASE_UP, `${WRITABLE} 1x9 0 1x240`],
      ["the database is unreachable", DATABASE_DOWN, `${WRITABLE} 0x240`],
    ],
  },
  GuestFormsPoolExhausted: {
    fires: [["requests wait", 12, `${POOL_WAITING} 0x9 1x240`]],
    silent: [
      ["requests wait for a moment", `${POOL_WAITING} 0x9 50 50 0x240`],
      ["all connections are busy", 'guest_forms_pool_connections{state="busy"} 10x240'],
    ],
  },
  GuestFormsHolderLimited: {
    fires: [["requests of a key holder are rejected for five minutes", 16, `${REJECTIONS} 0x9 0+5x240`]],
    silent: [
      ["some are rejected once", `${REJECTIONS} 0x9 50x240`],
      ["requests wait", "guest_forms_holder_waiting_requests 9x240"],
    ],
  },
  GuestFormsRedisUnreachable: {
    fires: [["Redis is lost", 12, `${REDIS} 1x9 0x240`]],
    silent: [["Redis restarts", `${REDIS} 1x9 0 0 1x240`]],
  },
  GuestFormsKeyGuessing: {
    fires: [
      ["an address exceeds BAD_KEY_LIMIT_MAX", 10, `${refusals("bad_key")} 0x9 1x240`],
      ["many addresses send 101 invalid keys a minute", 15, `${requests(401)} 0x9 0+101x240`],
    ],
    silent: [
      ["100 requests a minute have an invalid key", `${requests(401)} 0+100x240`],
      ["clients exceed the limits of their keys", `${refusals("key")} 0+999x240`, `${refusals("bad_key")} 0x240`],
    ],
  },
  GuestFormsNoWorker: {
    fires: [
      ["the last heartbeat is 61 s old", 12, DATABASE_UP, `${heartbeat(true)} 1x9 61x240`],
      ["there was never a heartbeat", 2, DATABASE_UP],
      ["no worker has SMTP_URL", 2, DATABASE_UP, `${heartbeat(false)} 1x240`],
    ],
    silent: [["the last heartbeat is 60 s old", DATABASE_UP, `${heartbeat(true)} 60x240`]],
  },
  GuestFormsEmailsWaiting: {
    fires: [["an email waits for 301 s", 12, `${EMAIL_WAIT} 0x9 301x240`]],
    silent: [["an email waits for 300 s", `${EMAIL_WAIT} 300x240`]],
  },
  GuestFormsEmailsRetrying: {
    fires: [
      ["more attempts fail than succeed", 16, `${attempts("retrying")} 0+11x240`, `${attempts("sent")} 0+10x240`],
      ["workers crash at every attempt", 16, `${attempts("crashed")} 0+1x240`, `${attempts("sent")} 0x240`],
    ],
    silent: [
      ["every second attempt succeeds", `${attempts("retrying")} 0+10x240`, `${attempts("sent")} 0+10x240`],
      ["emails expire", `${attempts("expired")} 0+10x240`, `${attempts("sent")} 0x240`],
      ["no email is sent", `${attempts("retrying")} 5x240`, `${attempts("sent")} 9x240`],
      [
        "the mail server fails for 10 minutes",
        `${attempts("retrying")} 0x9 0+5x2 10x240`,
        `${attempts("sent")} 0x12 0+10x240`,
      ],
    ],
  },
  GuestFormsEmailsFailed: {
    fires: [["one more email failed", 10, `${FAILED} 3x9 4x240`]],
    silent: [
      ["emails failed earlier", `${FAILED} 3x240`],
      ["failed emails are retried", `${FAILED} 5x9 4x9 0x240`],
    ],
  },
  GuestFormsWebhooksWaiting: {
    fires: [["a delivery waits for 301 s", 12, `${DELIVERY_WAIT} 0x9 301x240`]],
    silent: [
      ["a delivery waits for 300 s", `${DELIVERY_WAIT} 300x240`],
      ["an endpoint fails", `${DELIVERY_WAIT} 0x240`, `${endpoints("failing")} 1x240`],
    ],
  },
  GuestFormsWebhookDisabled: {
    fires: [["one more endpoint was disabled", 10, `${endpoints("disabled")} 3x9 4x240`]],
    silent: [
      ["endpoints were disabled earlier", `${endpoints("disabled")} 3x240`],
      ["an endpoint is enabled again", `${endpoints("disabled")} 3x9 2x240`],
      ["endpoints fail", `${endpoints("disabled")} 0x240`, `${endpoints("failing")} 0x9 5x240`],
    ],
  },
  GuestFormsRetentionOverdue: {
    fires: [
      ["the last run was more than two hours ago", 126, DATABASE_UP, `${RETENTION} 0x240`],
      ["there was never a run", 5, DATABASE_UP],
    ],
    silent: [["it runs every hour", DATABASE_UP, `${RETENTION} 0x59 3600x59 7200x240`]],
  },
  GuestFormsMixedVersions: {
    fires: [
      [
        "two versions run for an hour",
        60,
        `${build('version="1",instance="one"')} 1x240`,
        `${build('version="2",instance="two"')} 1x240`,
      ],
    ],
    silent: [
      [
        "an upgrade takes half an hour",
        `${build('version="1",instance="one"')} 1x30 _x240`,
        `${build('version="2",instance="two"')} 1x240`,
      ],
      [
        "one version runs on two versions of Node.js",
        `${build('version="1",node="v22"')} 1x240`,
        `${build('version="1",node="v24"')} 1x240`,
      ],
    ],
  },
};
