import { checkHistory, unknownMigrations } from "../../prisma/history.js";
import { assertSupportedServer } from "../../prisma/session.js";
import type { Settings } from "../../server/config.js";
import { describeConnectionFailure } from "../../server/connection-failures.js";
import type { Db } from "../../server/database/db.js";
import { sessionSettings } from "../../server/database/pool.js";
import { assertPrimary } from "../../server/database/primary.js";
import { findWriteProblem } from "../../server/database/writes.js";
import { countUntranslatedListings } from "../../server/emails/languages.js";
import { openTransport } from "../../server/emails/mailer.js";
import { loadTemplates } from "../../server/emails/templates.js";
import { APP_SECRETS_MISSING } from "../../server/encryption.js";
import { guestUrlOf } from "../../server/forms/queries.js";
import { findUnknownTimeZones } from "../../server/listings/timezones.js";
import { readDeliveryFigures, readEmailFigures } from "../../server/outbox/figures.js";
import { checkSecrets, findDroppedSecrets } from "../../server/secrets/checks.js";
import { EXAMPLE_PUBLIC_ID } from "../../server/setting-values.js";
import { WORKER_CONNECTIONS } from "../../server/worker.js";
import { redactUrl } from "../cli/failure.js";
import { READINESS_CONNECTIONS } from "../runtime/readiness.js";
import { type CheckResult, failed, ok, type Problem, warning, warnOf } from "./results.js";
import { findLinkProblems, findSettingProblems } from "./settings.js";
import { checkStandby } from "./standby.js";
import { findWorkerProblems } from "./workers.js";

export interface CheckContext {
  settings: Settings;
  env: Record<string, string | undefined>;
  /** Gateway processes that share the database. */
  processes: number;
  /** Whether each of them also runs a worker. */
  worker: boolean;
}

/** A rejection counts as failed. The caller enforces the timeout. */
type Check = (context: CheckContext) => Promise<CheckResult> | CheckResult;
type DatabaseCheck = (context: CheckContext, db: Db) => Promise<CheckResult>;

/** Less than a check may take, so that the mail server's silence is explained. */
const MAIL_TIMEOUT_SECONDS = 8;

/** Checks that need no database, in the order in which they are printed. */
export const CHECKS = {
  // Invalid settings end `doctor` before its checks.
  settings: ({ settings, env }) => warnOf(findSettingProblems(settings, env), "All settings are valid."),

  links({ settings }) {
    const { FORM_URL_TEMPLATE } = settings;
    const example = FORM_URL_TEMPLATE && guestUrlOf({ publicId: EXAMPLE_PUBLIC_ID }, FORM_URL_TEMPLATE);
    return warnOf(
      findLinkProblems(settings),
      example ? `The link of a guest is like ${example}.` : "FORM_URL_TEMPLATE is not set: guests get no link.",
    );
  },

  retention: ({ settings: { FORM_RETENTION_DAYS: days } }) =>
    ok(
      days === 0
        ? "FORM_RETENTION_DAYS is 0: forms are kept."
        : `Workers delete forms ${days} ${days === 1 ? "day" : "days"} after check-out.`,
    ),

  async "email templates"({ settings }) {
    const { languages } = await loadTemplates(settings);
    return ok(`Invitations can be sent in ${languages.join(", ")}.`);
  },

  async "mail server"({ settings }) {
    const { SMTP_URL, NODE_ENV } = settings;
    if (!SMTP_URL) {
      const notSent = "SMTP_URL is not set: emails wait. Only `dev` prints them.";
      return NODE_ENV === "production" ? warning(`${notSent} Set SMTP_URL.`) : ok(notSent);
    }
    const timeout = { SMTP_TIMEOUT_SECONDS: Math.min(settings.SMTP_TIMEOUT_SECONDS, MAIL_TIMEOUT_SECONDS) };
    const transport = await openTransport(SMTP_URL, timeout);
    // Connects and logs in without sending mail.
    return checkServer("The mail server", "SMTP_URL", SMTP_URL, () => transport.verify()).finally(() =>
      transport.close(),
    );
  },

  async redis({ settings: { REDIS_URL } }) {
    if (!REDIS_URL) return ok("REDIS_URL is not set: each process counts rate limits separately.");
    const { connectionTo } = await import("../runtime/redis.js");
    const client = connectionTo(REDIS_URL).on("error", () => {});
    const ping = async () => (await client.connect()).ping();
    return checkServer("Redis", "REDIS_URL", REDIS_URL, ping).finally(() => client.destroy());
  },
} satisfies Record<string, Check>;

/** Whether the database can be used. The other checks of the database need it. */
export async function checkDatabase(_context: CheckContext, db: Db): Promise<CheckResult> {
  await assertSupportedServer(db.pool);
  await assertPrimary(db.pool);
  const [server] = await db.query<{ version: string; name: string }>(
    "doctor-server",
    "SELECT current_setting('server_version') AS version, current_database() AS name",
    [],
  );
  return ok(`PostgreSQL ${server?.version}, database ${server?.name}.`);
}

/** Beyond this, times in logs and the `webhook-timestamp` mislead people, and receivers of webhooks. */
const MAX_CLOCK_SKEW_MS = 1_000;

/** Checks of the database, in the order in which they are printed. */
export const DATABASE_CHECKS = {
  async schema(_context, db) {
    const pending = await checkHistory(db.pool);
    if (pending.length > 0) {
      return failed(`Migrations are pending: ${pending.join(", ")}. Run \`guest-forms migrate\`.`);
    }
    const unknown = (await unknownMigrations(db.pool)).join(", ");
    return unknown === ""
      ? ok("All migrations are applied.")
      : warning(`A newer version of guest-forms migrated the database (${unknown}): upgrade this installation.`);
  },

  async writes(_context, db) {
    const problem = await findWriteProblem(db.pool);
    return problem
      ? failed(`Requests cannot write: ${problem.reason}. ${problem.advice}`)
      : ok("The database accepts writes, and its role has all privileges.");
  },

  async secrets({ settings: { APP_SECRETS } }, db) {
    if (!APP_SECRETS) return failed(`${APP_SECRETS_MISSING}.`);
    const isKnown = await checkSecrets(db.pool, APP_SECRETS);
    const [dropped] = await findDroppedSecrets(db.pool, APP_SECRETS);
    if (!dropped) return ok(isKnown ? "The database knows APP_SECRETS." : "The next start registers APP_SECRETS.");
    const lacks = `APP_SECRETS lacks the secret ${dropped.id}, which`;
    const until = dropped.neededUntil?.toISOString();
    return warning(
      until
        ? `${lacks} is needed until ${until}: list it behind the newest one until then.`
        : `${lacks} may still be needed: run \`guest-forms secrets reencrypt\`, with it listed behind the newest one if you still have it.`,
    );
  },

  async connections(context, db) {
    const { settings, processes } = context;
    const { needed, allowed } = await countConnections(context, db);
    const limit = Number.isFinite(allowed) ? `, Postgres allows ${allowed}` : " to the pooler";
    const summary = `${processes} ${processes === 1 ? "process opens" : "processes open"} at most ${needed} connections${limit}`;
    if (needed > allowed) {
      return warning(`${summary}: lower DATABASE_POOL_SIZE, raise max_connections, or use PgBouncer.`);
    }
    const missing = (await missingSessionSettings(settings, db)).join(", ");
    if (missing !== "") {
      return warning(
        `${missing}: sessions of the pooler lack settings: run \`guest-forms migrate\`, then RECONNECT in PgBouncer.`,
      );
    }
    const { DATABASE_CONNECTIONS_PER_HOLDER: share, DATABASE_POOL_SIZE: size } = settings;
    return 2 * share > size
      ? warning(
          `One key holder may use ${share} of the ${size} connections of a process: lower DATABASE_CONNECTIONS_PER_HOLDER to half of DATABASE_POOL_SIZE or less.`,
        )
      : ok(`${summary}.`);
  },

  "standby reads": checkStandby,

  async clock(_context, db) {
    const sent = Date.now();
    const [row] = await db.query<{ now: string }>("doctor-clock", "SELECT clock_timestamp() AS now", []);
    const received = Date.now();
    const difference = (sent + received) / 2 - Date.parse(row?.now ?? "");
    const uncertainty = (received - sent) / 2;
    const seconds = `${(Math.abs(difference) / 1000).toFixed(1)} s ${difference > 0 ? "ahead of" : "behind"}`;
    return Math.abs(difference) - uncertainty > MAX_CLOCK_SKEW_MS
      ? warning(`This machine's clock is ${seconds} the database's: synchronize both (NTP).`)
      : ok("The clocks of this machine and the database agree within a second.");
  },

  async "time zones"(_context, db) {
    const { listings, total } = await findUnknownTimeZones(db);
    const known = "This machine and the database know the time zones of all listings.";
    const examples = listings.map(({ id, timezone }) => `${id} (${timezone})`).join(", ");
    const rest = total > listings.length ? ` and ${total - listings.length} more` : "";
    const problem: Problem = {
      found: `Listings in a time zone that this machine or the database does not know, so emails have no times and lists by day use UTC: ${examples}${rest}.`,
      advice: "Run `guest-forms listings update ID --timezone NAME`.",
      topic: "listings",
      ids: listings.map(({ id }) => id),
    };
    return warnOf([total > 0 && problem], known);
  },

  async languages({ settings }, db) {
    const { counts, total } = await countUntranslatedListings(db, (await loadTemplates(settings)).languages);
    if (total === 0) return ok("There are email templates in the languages of all active listings.");
    const others = total - counts.reduce((sum, { listings }) => sum + listings, 0);
    const most = counts.map(({ language, listings }) => `${language} ${listings}`).join(", ");
    return ok(
      `Active listings in a language without email templates, whose guests get EMAIL_LANGUAGE (${settings.EMAIL_LANGUAGE}): ${total} (${most}${others > 0 ? `, others ${others}` : ""}).`,
    );
  },

  async workers({ settings: { SMTP_URL } }, db) {
    const problems = await findWorkerProblems(db, SMTP_URL !== undefined);
    return warnOf(problems, "Workers send heartbeats, and the retention runs every hour.");
  },

  async emails(_context, db) {
    const { counts, overdue, stale } = await readEmailFigures(db);
    const problems: (Problem | false)[] = [
      overdue > 0 &&
        `${overdue} overdue by more than a minute: check that a worker is running (\`serve\` or \`worker\`).`,
      stale > 0 && `${stale} left by a stale worker: a running worker takes over within a minute.`,
      counts.failed > 0 && {
        found: `${counts.failed} failed:`,
        advice: "run `guest-forms emails list --state failed`, then retry or dismiss them.",
        topic: "failed emails",
      },
      counts.bounced > 0 && {
        found: `${counts.bounced} bounced:`,
        advice: "run `guest-forms emails list --state bounced`, then correct the address of the form or dismiss them.",
        topic: "bounced emails",
      },
    ];
    return warnOf(problems, `${counts.waiting + counts.retrying} waiting, none overdue, failed or bounced.`);
  },

  async webhooks({ settings: { NODE_ENV, WEBHOOK_ALLOW_PRIVATE_ADDRESSES } }, db) {
    const { endpoints, failing, disabled, waiting, overdue } = await readDeliveryFigures(db);
    const problems: (Problem | false)[] = [
      NODE_ENV === "production" &&
        WEBHOOK_ALLOW_PRIVATE_ADDRESSES &&
        "WEBHOOK_ALLOW_PRIVATE_ADDRESSES lets owners of endpoints reach your internal services: unset it.",
      overdue > 0 &&
        `Deliveries overdue by more than a minute: ${overdue}. Check that a worker is running (\`serve\` or \`worker\`).`,
      failing > 0 && {
        found: `Endpoints that fail: ${failing}.`,
        advice: "Run `guest-forms webhooks list`, and tell their owners.",
        topic: "endpoints",
      },
      disabled > 0 && {
        found: `Endpoints disabled because they failed: ${disabled}.`,
        advice: "Run `guest-forms webhooks list`, then enable, disable or delete them.",
        topic: "endpoints",
      },
    ];
    return warnOf(
      problems,
      `Endpoints enabled: ${endpoints}, none fails. Deliveries waiting: ${waiting}, none overdue.`,
    );
  },
} satisfies Record<string, DatabaseCheck>;

/** Runs `attempt` against the server at `url`, the value of this setting, and reports the result. */
async function checkServer(
  what: string,
  setting: "SMTP_URL" | "REDIS_URL",
  url: string,
  attempt: () => Promise<unknown>,
): Promise<CheckResult> {
  const server = `${what} at ${new URL(url).host}`;
  try {
    await attempt();
    return ok(`${server} answers.`);
  } catch (error) {
    return failed(`${server} cannot be used: ${redactUrl(describeConnectionFailure(error, setting), url)}`);
  }
}

/** The maximum number of connections that the processes open, and the number that Postgres allows. */
async function countConnections({ settings, processes, worker }: CheckContext, db: Db) {
  const perWorker = worker ? WORKER_CONNECTIONS : 0;
  const needed = processes * (settings.DATABASE_POOL_SIZE + READINESS_CONNECTIONS + perWorker);
  // Behind a pooler, Postgres' limits do not apply to these connections.
  if (!settings.DATABASE_PREPARED) return { needed, allowed: Number.POSITIVE_INFINITY };
  const [limits] = await db.query<Record<string, number>>(
    "connection-limits",
    `SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
         - coalesce(current_setting('reserved_connections', true)::int, 0) AS server,
       (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user) AS role,
       (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS database`,
    [],
  );
  // -1 means no limit.
  return { needed, allowed: Math.min(...Object.values(limits ?? {}).filter((limit) => limit >= 0)) };
}

/**
 * Names of the settings that a session lacks. Without them, statements may wait indefinitely. Behind a pooler, `migrate`
 * stores them with the role, but the pooler may keep older sessions.
 */
async function missingSessionSettings(settings: Settings, db: Db): Promise<string[]> {
  const expected = sessionSettings(settings);
  const text = "SELECT name, setting FROM pg_settings WHERE name = ANY($1)";
  const rows = await db.query<{ name: string; setting: string }>("session-settings", text, [Object.keys(expected)]);
  const actual = new Map(rows.map(({ name, setting }) => [name, setting]));
  return Object.keys(expected).filter((name) => actual.get(name) !== expected[name as keyof typeof expected]);
}
