import { core, type Outputs } from "../core.js";
import { Badge, ListingLink, Time } from "../parts/cells.js";
import { Chart, type Series } from "../parts/chart.js";
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

type Problem = NonNullable<Health["checks"][number]["problems"]>[number];
type Topic = Exclude<Problem, string>["topic"];

const TOPICS: Record<Topic, [path: string, text: string]> = {
  "failed emails": ["emails?state=failed", "Emails that failed"],
  "bounced emails": ["emails?state=bounced", "Emails that bounced"],
  endpoints: ["webhooks", "Webhook endpoints"],
  listings: ["listings", "Listings"],
};

/** Markdown's marks of commands. */
const withoutMarks = (text: string) => text.replaceAll("`", "");

/** What is wrong, with a link to where to deal with it. */
function problemText(problem: Problem) {
  if (typeof problem === "string") return `${withoutMarks(problem)} `;
  const { found, topic, ids } = problem;
  const [path, text] = TOPICS[topic];
  return (
    <span key={found}>
      {found} <a href={`/console/${path}`}>{text}</a>
      {topic === "listings" &&
        ids?.map((id) => (
          <span key={id}>
            {" · "}
            <ListingLink id={id} />
          </span>
        ))}{" "}
    </span>
  );
}

function HealthReport({ checks, checkedAt }: Health) {
  const show = ({ name, status, message, problems }: Health["checks"][number]) => (
    <div key={name}>
      <Badge text={status} /> <strong>{name}</strong> {problems?.map(problemText) ?? withoutMarks(message)}
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

const outcomes = (kind: "emails" | "deliveries"): Series<Minute>[] => [
  ["sent", "success", (minute) => minute[kind]?.sent],
  ["retried later", "warning", (minute) => minute[kind]?.retrying],
  ["failed", "danger", (minute) => minute[kind]?.failed],
];

const CHARTS: [title: string, series: Series<Minute>[], unit?: string][] = [
  ["Requests", [["requests", "primary", ({ requests }) => requests]]],
  ["Errors (status 500 and above)", [["errors", "danger", ({ errors }) => errors]]],
  ["Refused by the rate limit", [["refused", "warning", ({ refused }) => refused]]],
  ["Duration of a request, p50", [["ms at most", "primary", ({ p50Ms }) => p50Ms]], "ms"],
  ["Duration of a request, p99", [["ms at most", "primary", ({ p99Ms }) => p99Ms]], "ms"],
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
          "Emails failed": emails && <a href="/console/emails?state=failed">{emails.counts.failed}</a>,
          "Emails bounced": emails && <a href="/console/emails?state=bounced">{emails.counts.bounced}</a>,
          "Longest wait of an email": emails && formatWait(emails.longestWait),
          "Deliveries waiting or retrying": deliveries && <a href="/console/webhooks">{deliveries.waiting}</a>,
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
        {CHARTS.map(([title, series, unit = "per minute"]) => (
          <Chart key={title} title={title} unit={unit} rows={history} series={series} isPeak={unit === "ms"} />
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
