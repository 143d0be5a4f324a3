import { z } from "zod";
import { A_LANGUAGE, canonicalLanguage } from "./languages.js";
import {
  boolean,
  formUrlTemplate,
  HOST_NAME,
  host,
  httpUrl,
  integer,
  isHttpUrl,
  isOrigin,
  MAX_OPERATOR_NAME,
  origins,
  postgresUrl,
  redisUrl,
  sender,
  shortText,
  smtpUrl,
  token,
  url,
} from "./setting-values.js";

/**
 * Every environment variable with its unit, default and purpose. Only `readSettings` reads their values. Errors never show the
 * value of a `secret` setting.
 */
export const settingsSchema = z.object({
  DATABASE_URL: postgresUrl
    .optional()
    .describe(
      "Postgres database. Required, except by `dev`, which starts an embedded Postgres if unset. Percent-encode special " +
        "characters of the password. ?sslmode=verify-full is TLS with a verified certificate, as are require and verify-ca; " +
        "disable is none, no-verify verifies nothing. ?sslrootcert=FILE has the certificate of your own authority.",
    ),
  DATABASE_DIRECT_URL: postgresUrl
    .optional()
    .describe("URL of the same database without the pooler (such as PgBouncer), to migrate. Default: DATABASE_URL."),
  DATABASE_REPLICA_URL: postgresUrl
    .optional()
    .describe(
      "URL of a standby of the same database, from which the process reads forms and listings once it has replayed what the " +
        "primary had stored when the request arrived. Otherwise, and without this setting, they are read from the primary.",
    ),
  DATABASE_PREPARED: boolean(true).describe(
    "Whether to use prepared statements and session settings. Set false behind PgBouncer in transaction mode: " +
      "`guest-forms migrate` then stores the settings with the role.",
  ),
  DATABASE_POOL_SIZE: integer(1, 1000, 10).describe(
    "Maximum number of connections per process for requests. It opens two more for /readyz, and the worker in it " +
      "eight more.",
  ),
  DATABASE_CONNECTIONS_PER_HOLDER: integer(1, 1000, 3).describe(
    "Maximum number of database connections per process that the requests of one key holder use at a time. The others " +
      "wait for their turn, so a key holder whose requests wait, for example for a locked listing, delays nobody else.",
  ),
  DATABASE_CONNECT_TIMEOUT_MS: integer(50, 60_000, 2_300).describe(
    "Milliseconds a request may wait for its key holder's turn, and for a connection. Then it gets a 503.",
  ),
  DATABASE_STATEMENT_TIMEOUT_MS: integer(50, 600_000, 1_800).describe("Milliseconds that a statement may run."),
  DATABASE_LOCK_TIMEOUT_MS: integer(50, 600_000, 1_700).describe(
    "Milliseconds a statement may wait for a lock. Also limits how long equal creates wait for each other.",
  ),
  HOST: host.describe("Address to listen on."),
  PORT: integer(0, 65_535, 3000).describe("Port to listen on; 0 picks a free one."),
  PUBLIC_URL: z
    .string()
    .refine((text) => isOrigin(text) && isHttpUrl(text))
    .optional()
    .meta({ allowed: "an http or https origin such as https://forms.example.com, without a path" })
    .describe(
      "Address at which clients reach the public port. The OpenAPI document and the Markdown of the documentation contain it, so " +
        "that they can be used elsewhere. Unset: they have relative addresses, except those of `dev`.",
    ),
  INTERNAL_TOKEN: token().describe(
    "Token of the internal port (tRPC, Prometheus metrics and the console). It grants full operator access. Unset: the " +
      "internal port is not opened, except by `dev`, which keeps a token in .data/.",
  ),
  GUEST_TOKEN: token(", other than INTERNAL_TOKEN").describe(
    "Token of the guest's page on the internal port. It grants three procedures: reading and completing a form, and setting its " +
      "vehicles and pets, each by its public id. Requires INTERNAL_TOKEN. Unset: none.",
  ),
  INTERNAL_HOST: host.describe(
    "Address that the internal port listens on. Plain HTTP: outside a container, do not use 0.0.0.0 or ::.",
  ),
  INTERNAL_PORT: integer(0, 65_535, 3001).describe("Internal port; 0 picks a free one."),
  CONSOLE_HOSTS: z
    .string()
    .transform((list) => list.split(",").map((name) => name.trim().toLowerCase()))
    .pipe(z.array(z.string().regex(HOST_NAME)).min(1))
    .optional()
    .meta({ allowed: "comma-separated host names such as console.example.com, without port" })
    .describe(
      "Host names at which the console answers, besides localhost and IP addresses, such as that of a reverse proxy in front.",
    ),
  APP_SECRETS: z
    .string()
    .transform((text) => text.split(",").map((secret) => secret.trim()))
    .pipe(z.array(z.string().min(32)).min(1))
    .optional()
    .meta({
      allowed: "comma-separated secrets of at least 32 characters each",
      secret: true,
    })
    .describe(
      "Root secrets for cursors, fingerprints and encrypted email addresses. Required, except by `dev`, which keeps one " +
        "in .data/ if unset. The first is used; the others are still accepted. Generate one with `openssl rand -base64 48` " +
        "and set it on all processes: a process with a secret that the database does not know refuses to start. To rotate, " +
        "list the new secret second on all processes, restart them, then put it first.",
    ),
  SMTP_URL: smtpUrl
    .optional()
    .describe(
      "Mail server for emails. smtps:// uses implicit TLS; smtp:// uses STARTTLS if the server offers it " +
        "(?requireTLS=true requires it). Certificates are verified unless you add ?tls.rejectUnauthorized=false. If " +
        "unset, emails wait; `dev` prints them.",
    ),
  SMTP_FROM: sender
    .optional()
    .describe(
      'Sender of emails, such as "{listing} <stays@example.com>": {listing} in the name is the title of the listing. ' +
        "Required with SMTP_URL.",
    ),
  FORM_URL_TEMPLATE: formUrlTemplate
    .optional()
    .describe(
      "Link in the invitation: the page of your application where guests fill in their form, such as " +
        "https://app.example.com/register/{publicId}. In another domain than SMTP_FROM it looks like phishing. Required with " +
        "SMTP_URL.",
    ),
  SMTP_TIMEOUT_SECONDS: integer(1, 600, 120).describe(
    "Seconds to wait for a connection to the mail server, and for its reply to each command. A message that takes ten " +
      "times as long is aborted and retried.",
  ),
  EMAIL_LANGUAGE: z
    .string()
    .default("en")
    .transform((tag) => canonicalLanguage(tag) ?? "")
    .refine((tag) => tag !== "")
    .meta({ allowed: A_LANGUAGE })
    .describe(
      "Language of the invitation to guests of listings that have no language of their own, such as de or pt-BR.",
    ),
  EMAIL_TEMPLATES: z
    .string()
    .optional()
    .meta({ allowed: "a folder" })
    .describe("Folder of your own templates of the invitation (gateway/docs/operating.md#write-your-own-invitation)."),
  EMAIL_SENDER_NAME: shortText("a name")
    .optional()
    .describe("Name of your company, which the invitation names as its sender. Default: the name in SMTP_FROM."),
  EMAIL_CONTACT: shortText("a text")
    .optional()
    .describe(
      "Where guests can ask questions, in the invitation: a text such as an email address, phone number or URL.",
    ),
  EMAIL_PRIVACY_URL: httpUrl.optional().describe("Link to your privacy notice, in the invitation."),
  EMAIL_REPLY_TO_OWNER: boolean(false).describe(
    "Whether replies to the invitation go to the owner of the listing, whose email address the guest then sees.",
  ),
  RETENTION_DAYS: integer(0, 36_500, 90).describe(
    "Days after check-out until the worker erases a form's email address; it checks hourly. 0: never.",
  ),
  FORM_RETENTION_DAYS: integer(0, 36_500, 0).describe(
    "Days after check-out until the worker deletes a form, with everything about it except its audit entries; it checks " +
      "hourly. 0: never.",
  ),
  AUDIT_RETENTION_DAYS: integer(0, 36_500, 730).describe(
    "Days until the worker deletes an entry of the audit trail; it checks hourly. 0: never.",
  ),
  EMAIL_RETENTION_DAYS: integer(0, 36_500, 90).describe(
    "Days until the worker deletes an email that was sent, failed or expired. They count from its end, " +
      "or from check-out if that is later and it was not sent. 0: never.",
  ),
  IDEMPOTENCY_KEY_RETENTION_DAYS: integer(0, 36_500, 90).describe(
    "Days after check-out until the worker deletes an Idempotency-Key, which then counts as never used. If the key was " +
      "first used after check-out, they count from then. 0: never.",
  ),
  WORKER_CONCURRENCY: integer(1, 100, 2).describe("Emails that a process sends at the same time."),
  WEBHOOK_ALLOW_PRIVATE_ADDRESSES: boolean(false).describe(
    "Whether webhooks may also use http, and addresses in your own network. For development only: owners of endpoints " +
      "could reach your internal services. `dev` sets it.",
  ),
  LIST_SETTLE_SECONDS: integer(0, 3600, 5).describe(
    "A page that has a next page and ends in forms younger than this waits for creates in flight, so that a cursor " +
      "never skips a form. " +
      "A form whose commit takes longer can be missed.",
  ),
  RATE_LIMIT_MAX: integer(1, 1_000_000_000, 600).describe("Requests per key and window."),
  RATE_LIMIT_WINDOW_SECONDS: integer(1, 86_400, 60).describe("Length of the window of RATE_LIMIT_MAX, in seconds."),
  REDIS_URL: redisUrl
    .optional()
    .describe("Redis that shares the rate limits between processes. Unset: each process counts on its own."),
  BAD_KEY_LIMIT_MAX: integer(1, 1_000_000_000, 100).describe(
    "Requests per minute with unknown, revoked or expired keys before a client address gets 429.",
  ),
  TRUST_PROXY: integer(0, 32, 0).describe("Number of trusted reverse proxies (Express `trust proxy`)."),
  CORS_ORIGINS: origins.optional().describe("Web origins that may call the API. Unset: none."),
  BODY_MAX_BYTES: integer(1, 10_000_000, 16_384).describe("Maximum size of a request body, in bytes."),
  BODY_MAX_FIELDS: integer(1, 100_000, 32).describe(
    "Maximum number of properties and array elements in a body, at every depth.",
  ),
  BODY_MAX_DEPTH: integer(1, 1000, 8).describe("Maximum nesting depth of a body; the body itself is 1."),
  DRAIN_DELAY_SECONDS: integer(0, 600, 0).describe(
    "Seconds that a stopping process keeps serving while /readyz answers 503, so load balancers stop routing to it.",
  ),
  DRAIN_SECONDS: integer(0, 600, 15).describe(
    "Seconds that running requests, and the emails and webhooks that are being sent, have to finish when a process stops. " +
      "What is not finished then may be sent again: the default covers a webhook, which takes at most 10.",
  ),
  OTEL_EXPORTER_OTLP_ENDPOINT: url(["http", "https"])
    .optional()
    .describe(
      "Endpoint for OpenTelemetry traces, OTLP over HTTP (protobuf). Tracing is off if this and " +
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT are both unset. The other OTEL_* variables work too, except " +
        "OTEL_TRACES_SAMPLER.",
    ),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: url(["http", "https"])
    .optional()
    .describe("Endpoint for traces only, with the full path."),
  OTEL_SDK_DISABLED: z
    .string()
    .regex(/^(true|false)$/i)
    .transform((text) => text.toLowerCase() === "true")
    .optional()
    .meta({ allowed: "true or false" })
    .describe("true turns tracing off."),
  OTEL_TRACES_SAMPLER_ARG: z
    .string()
    .regex(/^(0|1|0?\.\d+)$/)
    .transform(Number)
    .default(1)
    .meta({ allowed: "a number from 0 to 1" })
    .describe(
      "Share of requests that are traced, chosen at random. A client's `traceparent` sets the trace id, but does not decide.",
    ),
  GUEST_FORMS_OPERATOR: shortText("a name", MAX_OPERATOR_NAME)
    .optional()
    .describe(
      "Name that commands write into the audit trail. Default: the user of the system, behind `sudo` the one who called it.",
    ),
  NODE_ENV: z
    .string()
    .optional()
    .meta({ allowed: "production, development or test" })
    .describe(
      "production: commands require DATABASE_URL even if `dev` runs in the current folder, and `guest-forms doctor` " +
        "warns about settings that only suit development.",
    ),
  LOG_LEVEL: z
    .enum(["fatal", "error", "warn", "info", "debug", "trace", "silent"])
    .default("info")
    .meta({ allowed: "fatal, error, warn, info, debug, trace or silent" })
    .describe("Minimum level to log."),
});

export type Settings = z.infer<typeof settingsSchema>;

/** Invalid or missing settings. The message has one line per setting: its name, what it was and what is allowed. */
export class SettingsError extends Error {
  override readonly name = "SettingsError";
}

/** What a setting requires besides. The first two have no default: a wrong link would be mailed to guests. */
const REQUIRED_WITH = { SMTP_URL: ["SMTP_FROM", "FORM_URL_TEMPLATE"], GUEST_TOKEN: ["INTERNAL_TOKEN"] };

const NEEDS_SESSIONS =
  "cannot be used with DATABASE_PREPARED=false: a pooler may send each statement to another server.";

/** Reads the settings from the environment. Empty variables count as unset. Throws SettingsError. */
export function readSettings(env: Record<string, string | undefined> = process.env): Settings {
  const given = Object.fromEntries(
    Object.keys(settingsSchema.shape).flatMap((name) => (env[name] ? [[name, env[name]]] : [])),
  );
  const parsed = settingsSchema.safeParse(given);
  const missing = Object.entries(REQUIRED_WITH).flatMap(([by, names]) =>
    env[by] ? names.filter((name) => !env[name]).map((name) => ({ name, by })) : [],
  );
  const bad = new Map(parsed.error?.issues.map((issue) => [String(issue.path[0]), ownMessageOf(issue)]));
  if (env.GUEST_TOKEN && env.GUEST_TOKEN === env.INTERNAL_TOKEN) bad.set("GUEST_TOKEN", undefined);
  if (env.DATABASE_REPLICA_URL && parsed.data?.DATABASE_PREPARED === false)
    bad.set("DATABASE_REPLICA_URL", NEEDS_SESSIONS);
  if (parsed.success && bad.size === 0 && missing.length === 0) return parsed.data;
  const lines = [
    ...[...bad].map(([name, message]) => (message ? `${name} ${message}` : describeInvalid(name, env[name] ?? ""))),
    ...missing.map(({ name, by }) => `${name} is not set, but ${by} requires it: ${metadataOf(name).allowed}.`),
  ];
  throw new SettingsError(lines.join("\n"));
}

/** Undefined for the messages of zod. */
const ownMessageOf = ({ code, message }: z.core.$ZodIssue) =>
  code === "custom" && message !== "Invalid input" ? message : undefined;

function describeInvalid(name: string, value: string): string {
  const { allowed, secret } = metadataOf(name);
  const was = secret ? `a value of ${value.length} characters` : JSON.stringify(value);
  return `${name} is ${was}, but must be ${allowed}.`;
}

function metadataOf(name: string): z.core.JSONSchema.BaseSchema {
  const { properties } = z.toJSONSchema(settingsSchema, { io: "input" });
  return { ...(properties?.[name] as z.core.JSONSchema.BaseSchema) };
}
