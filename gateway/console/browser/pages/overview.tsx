import type { ComponentChildren } from "preact";
import { core, type Outputs } from "../core.js";
import { Badge } from "../parts/badge.js";
import { Chart, type Series, Swatch, sumOf } from "../parts/chart.js";
import { Facts, Page, Section } from "../parts/page.js";
import { Loaded } from "../parts/states.js";
import { Ago, Time } from "../parts/time.js";
import { useRead } from "../queries.js";

type Overview = Outputs["console"]["overview"];
type Minute = Overview["history"][number];
type Health = Outputs["console"]["health"];

const REFRESH_SECONDS = 15;
const HEALTH_REFRESH_SECONDS = 60;
const MAX_MINUTES = 60;

export function OverviewPage() {
  const overview = useRead(["overview"], () => core.console.overview.query(), { everySeconds: REFRESH_SECONDS });
  const health = useRead(["health"], () => core.console.health.query(), { everySeconds: HEALTH_REFRESH_SECONDS });
  return (
    <Page title="Overview">
      <Section title="Health">
        <Loaded query={health}>{(report) => <HealthReport of={report} />}</Loaded>
      </Section>
      <Loaded query={overview}>{(figures) => <Figures of={figures} />}</Loaded>
    </Page>
  );
}

const SEVERITY = ["failed", "warning", "skipped", "ok"];

function HealthReport({ of: { checks, checkedAt } }: { of: Health }) {
  const sorted = checks.toSorted((a, b) => SEVERITY.indexOf(a.status) - SEVERITY.indexOf(b.status));
  const findings = sorted.filter(({ status }) => status !== "ok");
  const passed = sorted.filter(({ status }) => status === "ok");
  return (
    <div class="stack">
      {findings.length > 0 && <Checks of={findings} />}
      <details>
        <summary>
          {findings.length === 0 ? `All ${passed.length} checks are ok` : `${passed.length} other checks are ok`}{" "}
          <span class="quiet">
            (checked <Ago at={checkedAt} />)
          </span>
        </summary>
        <Checks of={passed} />
      </details>
    </div>
  );
}

const Checks = ({ of }: { of: Health["checks"] }) => (
  <ul class="checks">
    {of.map(({ name, status, message }) => (
      <li key={name}>
        <Badge of={status} /> <strong>{name}</strong> <Message text={message} />
      </li>
    ))}
  </ul>
);

/** With commands, which are between backticks, as code. */
const Message = ({ text }: { text: string }) => (
  <>{text.split("`").map((part, index) => (index % 2 ? <code key={part}>{part}</code> : part))}</>
);

function Figures({ of: { history, emails, deliveries, version, node, startedAt } }: { of: Overview }) {
  const minutes = Math.min(history.length, MAX_MINUTES);
  const period = minutes === MAX_MINUTES ? "hour" : minutes === 1 ? "minute" : `${minutes} minutes`;
  const per = (read: (minute: Minute) => number | null) => history.map(read);
  const outcomes = (kind: "emails" | "deliveries"): Series[] => [
    { name: "Sent", tone: "good", values: per((minute) => minute[kind]?.sent ?? null) },
    { name: "Retried later", tone: "warn", values: per((minute) => minute[kind]?.retrying ?? null) },
    { name: "Failed", tone: "bad", values: per((minute) => minute[kind]?.failed ?? null) },
  ];
  const requests: Series = { name: "Requests", tone: "accent", values: per((minute) => minute.requests) };
  const errors: Series = { name: "Errors", tone: "bad", values: per((minute) => minute.errors) };
  const refused: Series = { name: "Refused", tone: "warn", values: per((minute) => minute.refused) };
  return (
    <div class="stack">
      <Section title="Waiting and failed">
        <Facts of={[...emailFacts(emails), ...deliveryFacts(deliveries)]} />
      </Section>
      <Section title={`The last ${period}`}>
        <p class="quiet">
          Requests are those of the public API to this process; emails and deliveries are those of all workers. One bar
          is one minute.
        </p>
        <div class="charts">
          <Counts title="Requests" series={[requests]} />
          <Counts title="Errors (status 500 and above)" series={[errors]} />
          <Counts title="Refused by the rate limit" series={[refused]} />
          <Durations of={history} />
          <Counts title="Emails" series={outcomes("emails")} />
          <Counts title="Webhook deliveries" series={outcomes("deliveries")} />
        </div>
      </Section>
      <p class="quiet">
        Version {version}, Node.js {node}, running since <Time at={startedAt} />
      </p>
    </div>
  );
}

type Fact = [name: string, value: ComponentChildren];

const UNKNOWN = "Unknown: the database does not answer";

function emailFacts(emails: Overview["emails"] | null): Fact[] {
  if (!emails) return [["Emails", UNKNOWN]];
  const { counts, longestWaitSeconds } = emails;
  return [
    ["Emails waiting", <Count n={counts.waiting} to="/console/emails?state=waiting" />],
    ["Emails retried later", <Count n={counts.retrying} to="/console/emails?state=retrying" isWarning />],
    ["Emails failed", <Count n={counts.failed} to="/console/emails?state=failed" isWarning />],
    ["Emails expired", <Count n={counts.expired} to="/console/emails?state=expired" />],
    ["Longest wait of an email", seconds(longestWaitSeconds)],
  ];
}

function deliveryFacts(deliveries: Overview["deliveries"] | null): Fact[] {
  if (!deliveries) return [["Webhook deliveries", UNKNOWN]];
  const { waiting, running, longestWaitSeconds, endpoints, failing, disabled } = deliveries;
  return [
    ["Deliveries waiting", <Count n={waiting + running} to="/console/webhooks?state=waiting" />],
    ["Longest wait of a delivery", seconds(longestWaitSeconds)],
    [
      "Webhook endpoints",
      <>
        <Count n={endpoints} to="/console/webhooks" /> enabled
        {failing > 0 && `, ${failing} failing`}
        {disabled > 0 && `, ${disabled} disabled by failures`}
      </>,
    ],
  ];
}

const Count = ({ n, to, isWarning = false }: { n: number; to: string; isWarning?: boolean }) => (
  <a href={to} class={isWarning && n > 0 ? "issue" : ""}>
    {n.toLocaleString()}
  </a>
);

const seconds = (wait: number) =>
  wait < 1 ? "None is due" : wait < 120 ? `${Math.round(wait)} s` : `${Math.round(wait / 60)} min`;

interface FigureProps {
  title: string;
  series: Series[];
  /** The numbers of the series as text. */
  texts: string[];
  note: string;
}

/** A chart, and its numbers as text. */
const Figure = ({ title, series, texts, note }: FigureProps) => (
  <figure>
    <figcaption>{title}</figcaption>
    <Chart
      label={`${title}: ${series.map(({ name }, index) => `${name} ${texts[index]}`).join(", ")}; ${note}`}
      series={series}
    />
    <p>
      {series.map(({ name, tone }, index) => (
        <span key={name} class="legend">
          <Swatch tone={tone} /> {series.length > 1 && name} <strong>{texts[index]}</strong>
        </span>
      ))}
      <small class="quiet">{note}</small>
    </p>
  </figure>
);

function Counts({ title, series }: Pick<FigureProps, "title" | "series">) {
  const minutes = series[0]?.values.map((_, minute) => sumOf(series.map(({ values }) => values[minute] ?? 0))) ?? [];
  const texts = series.map(({ values }) => sumOf(values).toLocaleString());
  const note = `${(minutes.at(-1) ?? 0).toLocaleString()} in this minute, at most ${Math.max(0, ...minutes).toLocaleString()} in one`;
  return <Figure title={title} series={series} texts={texts} note={note} />;
}

const ms = (value: number | null = null) =>
  value === null ? "–" : `${value.toLocaleString(undefined, { maximumFractionDigits: value < 10 ? 1 : 0 })} ms`;

function Durations({ of }: { of: Minute[] }) {
  const last = of.findLast(({ p50Ms }) => p50Ms !== null);
  const series: Series[] = [
    { name: "p50", tone: "accent", values: of.map(({ p50Ms }) => p50Ms) },
    { name: "p99", tone: "info", values: of.map(({ p50Ms, p99Ms }) => (p99Ms ?? 0) - (p50Ms ?? 0)) },
  ];
  const note = `last minute with requests; p99 at most ${ms(Math.max(0, ...of.map(({ p99Ms }) => p99Ms ?? 0)))}`;
  return (
    <Figure title="Duration of a request" series={series} texts={[ms(last?.p50Ms), ms(last?.p99Ms)]} note={note} />
  );
}
