import { core, type Outputs } from "../core.js";
import { Badge, Time } from "../parts/cells.js";
import { Facts, Loaded, Page, Section } from "../parts/page.js";
import { useRead } from "../queries.js";

type Overview = Outputs["console"]["overview"];
type Minute = Overview["history"][number];
type Health = Outputs["console"]["health"];

const REFRESH_SECONDS = 15;
const HEALTH_REFRESH_SECONDS = 60;

export function OverviewPage() {
  const overview = useRead(["overview"], () => core.console.overview.query(), { everySeconds: REFRESH_SECONDS });
  const isOutage = overview.data?.emails === null || overview.data?.deliveries === null;
  // Another report when an outage begins and when it ends: the one before would contradict the figures.
  const health = useRead(["health", isOutage || overview.isError], () => core.console.health.query(), {
    everySeconds: HEALTH_REFRESH_SECONDS,
  });
  return (
    <Page title="Overview">
      <Section title="Health">
        {isOutage && (
          <p class="alert alert-danger mb-0" role="alert">
            The database does not answer. What waits to be sent is unknown.
          </p>
        )}
        <Loaded query={health}>{(report) => <HealthReport {...report} />}</Loaded>
      </Section>
      <Loaded query={overview}>{(figures) => <Figures {...figures} />}</Loaded>
    </Page>
  );
}

function HealthReport({ checks, checkedAt }: Health) {
  const show = ({ name, status, message }: Health["checks"][number]) => (
    <div key={name}>
      <Badge text={status} /> <strong>{name}</strong> {message.replaceAll("`", "")}
    </div>
  );
  const passed = checks.filter(({ status }) => status === "ok");
  return (
    <div class="vstack gap-2">
      {checks.filter(({ status }) => status !== "ok").map(show)}
      <details>
        <summary>
          {passed.length} of {checks.length} checks are ok, checked <Time at={checkedAt} />
        </summary>
        {passed.map(show)}
      </details>
    </div>
  );
}

/** Name, color, and the number of a minute; null: unknown. */
type Series = [
  name: string,
  color: "primary" | "success" | "warning" | "danger",
  read: (minute: Minute) => number | null | undefined,
];

const outcomes = (kind: "emails" | "deliveries"): Series[] => [
  ["sent", "success", (minute) => minute[kind]?.sent],
  ["retried later", "warning", (minute) => minute[kind]?.retrying],
  ["failed", "danger", (minute) => minute[kind]?.failed],
];

const CHARTS: [title: string, series: Series[], isPeak?: boolean][] = [
  ["Requests", [["", "primary", ({ requests }) => requests]]],
  ["Errors (status 500 and above)", [["", "danger", ({ errors }) => errors]]],
  ["Refused by the rate limit", [["", "warning", ({ refused }) => refused]]],
  ["Duration of a request, p50", [["ms at most", "primary", ({ p50Ms }) => p50Ms]], true],
  ["Duration of a request, p99", [["ms at most", "primary", ({ p99Ms }) => p99Ms]], true],
  ["Emails", outcomes("emails")],
  ["Webhook deliveries", outcomes("deliveries")],
];

const Figures = ({ history, emails, deliveries, version, node, startedAt }: Overview) => (
  <>
    <Section title="Waiting and failed">
      <Facts
        facts={{
          "Emails waiting": emails && <a href="/console/emails?state=waiting">{emails.counts.waiting}</a>,
          "Emails retrying": emails && <a href="/console/emails?state=retrying">{emails.counts.retrying}</a>,
          "Emails failed": emails && <a href="/console/emails">{emails.counts.failed}</a>,
          "Longest wait of an email": emails && formatWait(emails.longestWait),
          "Deliveries waiting or retrying": deliveries?.waiting,
          "Endpoints failing": deliveries && <a href="/console/webhooks">{deliveries.failing}</a>,
          "Endpoints disabled by failures": deliveries && <a href="/console/webhooks">{deliveries.disabled}</a>,
          "Longest wait of a delivery": deliveries && formatWait(deliveries.longestWait),
        }}
      />
    </Section>
    <Section title="The last hour">
      <p class="text-body-secondary mb-0">
        Requests are those of the public API to this process; emails and deliveries are those of all workers. One bar is
        one minute since the start of the process.
      </p>
      <div class="row row-cols-1 row-cols-md-2 row-cols-lg-3 g-3">
        {CHARTS.map(([title, series, isPeak]) => (
          <Chart key={title} title={title} rows={history} series={series} isPeak={isPeak} />
        ))}
      </div>
    </Section>
    <p class="text-body-secondary">
      Version {version}, Node.js {node}, running since <Time at={startedAt} />
    </p>
  </>
);

const formatWait = (seconds: number) =>
  seconds < 1 ? "None due" : seconds < 120 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;

interface ChartProps {
  title: string;
  /** Oldest first. */
  rows: Minute[];
  /** Stacked in this order, from above. */
  series: Series[];
  /** The number of a series is its highest, not the sum. */
  isPeak?: boolean | undefined;
}

const SLOTS = 60;
const BAR_WIDTH = 0.8;

/** Bars of the last 60 minutes, the newest at the right, and their numbers as text. */
function Chart({ title, rows, series, isPeak = false }: ChartProps) {
  const stacks = rows.map((row) => series.map(([, , read]) => read(row) ?? 0));
  const max = Math.max(...stacks.map(sum), 1);
  const numberOf = (read: Series[2]) => {
    const known = rows.map(read).filter((value) => typeof value === "number");
    if (known.length === 0) return "–";
    return (isPeak ? Math.max(...known) : sum(known)).toLocaleString();
  };
  const bars = series.flatMap(([name, color], index) =>
    stacks.map((stack, minute) => {
      const y = max - sum(stack.slice(index));
      const place = { x: SLOTS - rows.length + minute, y, width: BAR_WIDTH, height: stack[index] };
      return <rect key={`${name} ${minute}`} class={`text-${color}`} fill="currentColor" {...place} />;
    }),
  );
  return (
    <figure class="mb-0">
      <figcaption>{title}</figcaption>
      <svg
        width="100%"
        height="64"
        class="border-bottom"
        viewBox={`0 0 ${SLOTS} ${max}`}
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        {bars}
      </svg>
      {series.map(([name, color, read]) => (
        <span key={name} class="me-3">
          <span class={`badge bg-${color}`}> </span> {numberOf(read)} {name}
        </span>
      ))}
    </figure>
  );
}

const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
