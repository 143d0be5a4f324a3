import { z } from "zod";

// In digits alone: JavaScript would also read "0x10", "1e3", "1.0" and a blank as numbers.
const whole = (least: number, most: number, fallback: number) =>
  z
    .string()
    .regex(/^\d+$/)
    .transform(Number)
    .pipe(z.number().min(least).max(most))
    .default(fallback)
    .meta({ may: `an integer from ${least} to ${most}` });

const address = (schemes: string[]) =>
  z
    .string()
    .refine((text) => URL.canParse(text) && schemes.includes(new URL(text).protocol.slice(0, -1)))
    .meta({ may: `an address such as ${schemes[0]}://…`, secret: true });

const isOrigin = (text: string) => URL.canParse(text) && new URL(text).origin === text;

/**
 * Every setting: environment variable, unit, default and reason. The only reader of the environment is
 * `readSettings`. `secret` settings are named in errors, never shown.
 */
export const settingsSchema = z.object({
  DATABASE_URL: address(["postgres", "postgresql"])
    .optional()
    .describe("Postgres to use. `dev` starts an embedded one where it is unset; all else demands it."),
  DATABASE_DIRECT_URL: address(["postgres", "postgresql"])
    .optional()
    .describe(
      "The same database past a pooler such as PgBouncer, for migrations, which need a session. Unset: DATABASE_URL.",
    ),
  DATABASE_PREPARED: z
    .enum(["true", "false"])
    .default("true")
    .transform((text) => text === "true")
    .meta({ may: "true or false" })
    .describe(
      "Whether connections keep prepared statements and settings. false behind PgBouncer in transaction mode: " +
        "`guest-forms migrate` then stores the settings with the role.",
    ),
  DATABASE_POOL_SIZE: whole(1, 1000, 10).describe(
    "Most connections of one process, beside WORKER_CONCURRENCY + 2 for its worker.",
  ),
  DATABASE_CONNECT_TIMEOUT_MS: whole(50, 60_000, 2_300).describe(
    "Milliseconds a request waits for a connection, then it is answered 503.",
  ),
  DATABASE_STATEMENT_TIMEOUT_MS: whole(50, 600_000, 1_800).describe("Milliseconds one statement may run."),
  DATABASE_LOCK_TIMEOUT_MS: whole(50, 600_000, 1_700).describe(
    "Milliseconds a statement may wait for a lock: the longest that equal creates wait for each other.",
  ),
  HOST: z
    .string()
    .min(1)
    .default("127.0.0.1")
    .meta({ may: "a host name or address" })
    .describe("Where to listen."),
  PORT: whole(0, 65_535, 3000).describe("Port to listen on; 0 takes a free one."),
  INTERNAL_TOKEN: z
    .string()
    .regex(/^[\x21-\x7e]{32,}$/)
    .optional()
    .meta({ may: "a secret of at least 32 characters, without spaces", secret: true })
    .describe(
      "Opens the internal port, for tools that call tRPC and for Prometheus: whoever sends it is the operator. " +
        "Unset: there is no such port.",
    ),
  INTERNAL_HOST: z
    .string()
    .min(1)
    .default("127.0.0.1")
    .meta({ may: "a host name or address" })
    .describe("Where the internal port listens."),
  INTERNAL_PORT: whole(0, 65_535, 3001).describe("The internal port; 0 takes a free one."),
  APP_SECRETS: z
    .string()
    .transform((text) => text.split(",").map((secret) => secret.trim()))
    .pipe(z.array(z.string().min(32)).min(1))
    .optional()
    .meta({ may: "comma-separated secrets of at least 32 characters each, newest first", secret: true })
    .describe(
      "Root secrets of cursors, fingerprints and sealed e-mail addresses; any of them is recognised. Make one once, with " +
        "`openssl rand -base64 48`, and set the same on all processes: one that the database does not know is refused. To " +
        "change it, list the new one second on all processes, restart them, then put it first. To set it for the first " +
        "time, stop all processes: they know only the secret that is stored.",
    ),
  SMTP_URL: address(["smtp", "smtps"])
    .optional()
    .describe(
      "Mail server of the notification: smtps:// is TLS from the start, smtp:// turns to it where the server offers " +
        "STARTTLS (?requireTLS=true insists). Its certificate is verified; ?tls.rejectUnauthorized=false trusts any. " +
        "Unset: notifications wait; only `dev` prints them in its terminal.",
    ),
  SMTP_FROM: z
    .string()
    .min(3)
    .optional()
    .meta({ may: "a mail address, with or without a name" })
    .describe("Sender of the notification. Required with SMTP_URL."),
  FORM_URL_TEMPLATE: z
    .string()
    .refine((text) => text.includes("{publicId}") && /^https?:\/\//i.test(text) && URL.canParse(text))
    .optional()
    .meta({ may: "a web address containing {publicId}" })
    .describe(
      "The guest's link in the notification: the page of your application where guests fill in their form, such as " +
        "https://app.example.com/register/{publicId}. Required with SMTP_URL.",
    ),
  SMTP_TIMEOUT_SECONDS: whole(1, 600, 120).describe(
    "Seconds the mail server may take to be reached, and to answer each command. A message that takes ten times as " +
      "long is given up and tried again.",
  ),
  RETENTION_DAYS: whole(0, 36_500, 90).describe(
    "Days after check-out when a form's e-mail address is erased, by the worker, hourly. 0: never.",
  ),
  WORKER_CONCURRENCY: whole(1, 100, 2).describe("Notifications one process sends at once."),
  LIST_SETTLE_SECONDS: whole(0, 3600, 5).describe(
    "A page that ends in forms younger than this waits for creates in flight, so that a cursor never skips a form. " +
      "A form whose commit takes longer may be missed by a cursor given out meanwhile.",
  ),
  RATE_LIMIT_MAX: whole(1, 1_000_000_000, 600).describe("Requests a key may make in a window."),
  RATE_LIMIT_WINDOW_SECONDS: whole(1, 86_400, 60).describe("Length of that window, in seconds."),
  REDIS_URL: address(["redis", "rediss"])
    .optional()
    .describe("Redis that counts the limits for all processes together. Unset: each process counts its own."),
  BAD_KEY_LIMIT_MAX: whole(1, 1_000_000_000, 100).describe(
    "Requests a minute with unknown, revoked or expired keys before a client address gets 429.",
  ),
  TRUST_PROXY: whole(0, 32, 0).describe("How many proxies in front to believe about the client's address."),
  CORS_ORIGINS: z
    .string()
    .transform((list) => list.split(",").map((origin) => origin.trim()))
    .pipe(z.array(z.string().refine((origin) => origin === "*" || isOrigin(origin))).min(1))
    .optional()
    .meta({ may: 'comma-separated origins such as https://app.example.com, or "*"' })
    .describe("Web origins whose pages may call the interface. Unset: none."),
  BODY_MAX_BYTES: whole(1, 10_000_000, 16_384).describe("Bytes a request body may have."),
  BODY_MAX_FIELDS: whole(1, 100_000, 32).describe(
    "Properties and array elements a body may have, at all depths.",
  ),
  BODY_MAX_DEPTH: whole(1, 1000, 8).describe("How deep a body may nest; the body itself is 1."),
  DRAIN_DELAY_SECONDS: whole(0, 600, 0).describe(
    "How long a stopping process goes on serving, /readyz already saying 503, for load balancers to turn away from it.",
  ),
  DRAIN_SECONDS: whole(0, 600, 10).describe("How long a stopping process lets running requests finish."),
  OTEL_EXPORTER_OTLP_ENDPOINT: address(["http", "https"])
    .optional()
    .describe(
      "Where OpenTelemetry traces go, by OTLP over HTTP (protobuf). Unset, like OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: " +
        "nothing is traced. OpenTelemetry's other OTEL_* settings count too.",
    ),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: address(["http", "https"])
    .optional()
    .describe("The same for traces alone, with the whole path."),
  OTEL_SDK_DISABLED: z
    .string()
    .regex(/^(true|false)$/i)
    .transform((text) => text.toLowerCase() === "true")
    .optional()
    .meta({ may: "true or false" })
    .describe("true turns tracing off, whatever else is set."),
  NODE_ENV: z
    .string()
    .optional()
    .meta({ may: "production, or anything else for development" })
    .describe(
      "production: the commands demand DATABASE_URL, also where a `dev` runs in the current folder, and `guest-forms doctor` " +
        "warns of what only suits development.",
    ),
  LOG_LEVEL: z
    .enum(["fatal", "error", "warn", "info", "debug", "trace", "silent"])
    .default("info")
    .meta({ may: "fatal, error, warn, info, debug, trace or silent" })
    .describe("Least severe level that is logged."),
});

export type Settings = z.infer<typeof settingsSchema>;

/** A setting that cannot be used: its message is one line that names it, what it was and what it may be. */
export class SettingsError extends Error {
  override readonly name = "SettingsError";
}

/** Without a default, because it would mail guests a link to nowhere. */
const REQUIRED_WITH_SMTP_URL = ["SMTP_FROM", "FORM_URL_TEMPLATE"] as const;

/** Settings of the environment; empty variables count as unset. Throws SettingsError, one line a bad or missing value. */
export function readSettings(env: Record<string, string | undefined> = process.env): Settings {
  const given = Object.fromEntries(
    Object.keys(settingsSchema.shape).flatMap((name) => (env[name] ? [[name, env[name]]] : [])),
  );
  const parsed = settingsSchema.safeParse(given);
  const missing = env.SMTP_URL ? REQUIRED_WITH_SMTP_URL.filter((name) => !env[name]) : [];
  if (parsed.success && missing.length === 0) return parsed.data;
  const bad = new Set(parsed.error?.issues.map(({ path }) => String(path[0])));
  const lines = [
    ...[...bad].map((name) => complaint(name, env[name] ?? "")),
    ...missing.map((name) => `${name} is not set, but SMTP_URL requires it: ${factsOf(name).may}.`),
  ];
  throw new SettingsError(lines.join("\n"));
}

function complaint(name: string, value: string): string {
  const { may, secret } = factsOf(name);
  const was = secret ? `a value of ${value.length} characters` : JSON.stringify(value);
  return `${name} is ${was}, but must be ${may}.`;
}

function factsOf(name: string): z.core.JSONSchema.BaseSchema {
  const { properties } = z.toJSONSchema(settingsSchema, { io: "input" });
  return { ...(properties?.[name] as z.core.JSONSchema.BaseSchema) };
}
