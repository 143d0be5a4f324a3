import { describe, expect, test } from "vitest";
import { readSettings, type Settings, SettingsError, settingsSchema } from "../../server/config.js";

const readErrors = (env: Record<string, string>): string[] => {
  try {
    readSettings(env);
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    return error.message.split("\n");
  }
  throw new Error("the settings are valid");
};

const MAIL = {
  SMTP_URL: "smtps://u:p@mail.example:465",
  SMTP_FROM: "Hosts <hosts@example.com>",
  FORM_URL_TEMPLATE: "https://x.example/{publicId}",
};

const [TOKEN, GUEST_TOKEN] = ["t".repeat(32), "g".repeat(32)];

test("GUEST_TOKEN needs INTERNAL_TOKEN, which must be another secret, and is in no error", () => {
  expect(readSettings({ GUEST_TOKEN, INTERNAL_TOKEN: TOKEN })).toMatchObject({ GUEST_TOKEN, INTERNAL_TOKEN: TOKEN });
  const allowed = "a secret of at least 32 characters, without spaces";
  expect(readErrors({ GUEST_TOKEN })).toEqual([`INTERNAL_TOKEN is not set, but GUEST_TOKEN requires it: ${allowed}.`]);
  const same = `GUEST_TOKEN is a value of 32 characters, but must be ${allowed}, other than INTERNAL_TOKEN.`;
  expect(readErrors({ GUEST_TOKEN, INTERNAL_TOKEN: GUEST_TOKEN })).toEqual([same]);
});

test("DATABASE_REPLICA_URL needs sessions: a pooler could send the check and the read to two servers", () => {
  const DATABASE_REPLICA_URL = "postgres://u:secret@standby.example/forms";
  expect(readSettings({ DATABASE_REPLICA_URL })).toMatchObject({ DATABASE_REPLICA_URL });
  expect(readErrors({ DATABASE_REPLICA_URL, DATABASE_PREPARED: "false" })).toEqual([
    "DATABASE_REPLICA_URL cannot be used with DATABASE_PREPARED=false: a pooler may send each statement to another server.",
  ]);
});

describe("unset settings", () => {
  test("have the documented defaults", () => {
    expect(readSettings({})).toEqual({
      DATABASE_PREPARED: true,
      DATABASE_POOL_SIZE: 10,
      DATABASE_CONNECTIONS_PER_HOLDER: 3,
      DATABASE_CONNECT_TIMEOUT_MS: 2300,
      DATABASE_STATEMENT_TIMEOUT_MS: 1800,
      DATABASE_LOCK_TIMEOUT_MS: 1700,
      HOST: "127.0.0.1",
      PORT: 3000,
      INTERNAL_HOST: "127.0.0.1",
      INTERNAL_PORT: 3001,
      SMTP_TIMEOUT_SECONDS: 120,
      EMAIL_LANGUAGE: "en",
      EMAIL_REPLY_TO_OWNER: false,
      RETENTION_DAYS: 90,
      FORM_RETENTION_DAYS: 0,
      AUDIT_RETENTION_DAYS: 730,
      EMAIL_RETENTION_DAYS: 90,
      IDEMPOTENCY_KEY_RETENTION_DAYS: 90,
      WORKER_CONCURRENCY: 2,
      WEBHOOK_ALLOW_PRIVATE_ADDRESSES: false,
      LIST_SETTLE_SECONDS: 5,
      RATE_LIMIT_MAX: 600,
      RATE_LIMIT_WINDOW_SECONDS: 60,
      BAD_KEY_LIMIT_MAX: 100,
      TRUST_PROXY: 0,
      BODY_MAX_BYTES: 16_384,
      BODY_MAX_FIELDS: 32,
      BODY_MAX_DEPTH: 8,
      DRAIN_DELAY_SECONDS: 0,
      DRAIN_SECONDS: 15,
      OTEL_TRACES_SAMPLER_ARG: 1,
      LOG_LEVEL: "info",
    });
  });

  test("an empty value counts as unset, and unknown variables are ignored", () => {
    const empty = Object.fromEntries(Object.keys(settingsSchema.shape).map((name) => [name, ""]));
    expect(readSettings({ ...empty, PATH: "/bin", UNKNOWN: "x" })).toEqual(readSettings({}));
  });
});

test.each<[keyof Settings, string, unknown]>([
  ["DATABASE_URL", "postgresql://u:p@db.example/forms", "postgresql://u:p@db.example/forms"],
  ...["/register/{publicId}", "/{publicId}/edit?form={publicId}", "/#/forms/{publicId}", "/@{publicId}"].map(
    (path): [keyof Settings, string, unknown] => {
      const template = `https://x.example${path}`;
      return ["FORM_URL_TEMPLATE", template, template];
    },
  ),
  // What the driver reads as it was meant.
  ...["p@ss", "100%", "p%23ss", "a:b", "a b", "[x]"].map((password): [keyof Settings, string, unknown] => {
    const value = `postgres://u:${password}@db.example/forms?sslmode=require`;
    return ["DATABASE_URL", value, value];
  }),
  ["PORT", "0", 0],
  ["OTEL_SDK_DISABLED", "TRUE", true],
  ["OTEL_SDK_DISABLED", "False", false],
  ["OTEL_TRACES_SAMPLER_ARG", ".25", 0.25],
  ["APP_SECRETS", `${"a".repeat(32)} , ${"b".repeat(40)}`, ["a".repeat(32), "b".repeat(40)]],
  ["PUBLIC_URL", "https://forms.example.com:8443", "https://forms.example.com:8443"],
  ["CORS_ORIGINS", "https://a.example, http://b.test:5173", ["https://a.example", "http://b.test:5173"]],
  ["CORS_ORIGINS", "*", ["*"]],
  ["CONSOLE_HOSTS", "Console.example.com , gateway-1", ["console.example.com", "gateway-1"]],
])("%s accepts %s", (name, value, read) => {
  expect(readSettings({ [name]: value })[name]).toEqual(read);
});

describe("invalid settings", () => {
  const SENDER = "an email address, with or without a name that may contain {listing}";
  const SIGN = "$";
  const TEMPLATE = `an http or https URL with {publicId} in its path or query, not ${SIGN}{publicId} or {{publicId}}`;
  const ORIGINS = 'comma-separated origins such as https://app.example.com, or "*"';
  const HOSTS = "comma-separated host names such as console.example.com, without port";
  const PORTS = ["65536", "-1", "http", "0x10", "1e3", "10.0", "+10", " ", " 10", "1_000", "١٠"];

  test.each([
    ...[...PORTS, "9".repeat(400)].map((value) => ["PORT", value, "an integer from 0 to 65535"]),
    ["OTEL_SDK_DISABLED", "1", "true or false"],
    ["OTEL_TRACES_SAMPLER_ARG", "1.5", "a number from 0 to 1"],
    ["DATABASE_POOL_SIZE", "0", "an integer from 1 to 1000"],
    ["BODY_MAX_BYTES", "16k", "an integer from 1 to 10000000"],
    ["LOG_LEVEL", "loud", "fatal, error, warn, info, debug, trace or silent"],
    ...[
      "https://x.example/",
      "javascript:{publicId}",
      ...[SIGN, "%"].map((sign) => `https://x.example/${sign}{publicId}`),
      "https://x.example/{{publicId}}",
      "https://x.example/{publicId}/{listing}",
      "https://x.example/{publicid}",
      "https://x.example/%7BpublicId%7D",
      "https://x.example/<{publicId}>",
      "https://x.example/{publicId} ",
      "https://x.example/{publicId}/../",
      "https://{publicId}.x.example/",
      "https://{publicId}@x.example/{publicId}",
    ].map((template) => ["FORM_URL_TEMPLATE", template, TEMPLATE]),
    ...["https://a.example/", "https://a.example/forms", "ftp://a.example", "a.example"].map((url) => [
      ...["PUBLIC_URL", url, "an http or https origin such as https://forms.example.com, without a path"],
    ]),
    ["CORS_ORIGINS", "https://a.example/", ORIGINS],
    ["CORS_ORIGINS", "a.example", ORIGINS],
    ...[
      "*",
      "*.example.com",
      "https://console.example.com",
      "console.example.com:3001",
      "console.example.com.",
      "a,,b",
      "a b",
      "[::1]",
      "bücher.example",
      "a".repeat(254),
    ].map((hosts) => [...["CONSOLE_HOSTS", hosts, HOSTS]]),
    ...[
      "hosts",
      "Hosts <hosts@>",
      "Hosts hosts@example.com",
      "<hosts@example.com> Hosts",
      "a@b.example, c@d.example",
      "{title} <hosts@example.com>",
      "Hosts <{listing}@example.com>",
      "{listing}@example.com",
    ].map((from) => [...["SMTP_FROM", from, SENDER]]),
    ["EMAIL_LANGUAGE", "german", "a language such as de or pt-BR"],
    ["EMAIL_REPLY_TO_OWNER", "yes", "true or false"],
    ["EMAIL_PRIVACY_URL", "example.com/privacy", "an http or https URL"],
    ["EMAIL_PRIVACY_URL", "https://example.com/{language}/privacy", "an http or https URL"],
    ["EMAIL_SENDER_NAME", "x".repeat(201), "a name, of at most 200 characters"],
  ])("%s=%s is reported in one line with its value and the allowed values", (name = "", value = "", allowed) => {
    expect(readErrors({ [name]: value })).toEqual([`${name} is "${value}", but must be ${allowed}.`]);
  });

  const SECRETS = "comma-separated secrets of at least 32 characters each";

  test.each([
    ["DATABASE_URL", "mysql://user:hunter2@db.example", "a URL such as postgres://…"],
    ["DATABASE_URL", "hunter2", "a URL such as postgres://…"],
    ["REDIS_URL", "hunter2:6379", "a URL such as redis://…"],
    ["SMTP_URL", "http://user:hunter2@mail.example", "a URL such as smtp://…"],
    ["APP_SECRETS", `${"a".repeat(32)},hunter2`, SECRETS],
    ["APP_SECRETS", `${"hunter2".repeat(9)},`, SECRETS],
  ])("%s is a secret: the error does not show its value", (name, value, allowed) => {
    const line = `${name} is a value of ${value.length} characters, but must be ${allowed}.`;
    const { SMTP_URL: _, ...mail } = MAIL;
    expect(readErrors({ ...mail, [name]: value })).toEqual([line]);
    expect(line).not.toContain("hunter2");
  });

  const CANNOT_BE_READ =
    "cannot be read. Check its host and port, and percent-encode special characters of the user name and the password: %23 for #, %2F for /, %3F for ?, %40 for @, %25 for %.";
  const servers = [
    ["DATABASE_URL", "postgres", "/forms"],
    ["SMTP_URL", "smtp", ""],
    ["REDIS_URL", "redis", "/0"],
  ] as const;
  // After digits, the URL is valid, and the user name is its host.
  const passwords = [
    "hunter2#",
    "1#hunter2",
    "hunter2/",
    "1/hunter2",
    "hunter2?",
    "1?hunter2",
    "a@hunter2/",
    "%ff-hunter2",
  ];

  test.each(
    servers.flatMap(([name, scheme, path]) =>
      passwords.map((password) => [name, `${scheme}://user:${password}@server.example${path}`]),
    ),
  )(
    "%s=%s has a password that must be percent-encoded, which the error says without the password",
    (name = "", url = "") => {
      const { SMTP_URL: _, ...mail } = MAIL;
      expect(readErrors({ ...mail, [name]: url })).toEqual([`${name} ${CANNOT_BE_READ}`]);
    },
  );

  test("Redis' client refuses a % that begins no escape, so the settings do", () => {
    expect(readErrors({ REDIS_URL: "redis://:100%@server.example" })).toEqual([`REDIS_URL ${CANNOT_BE_READ}`]);
  });

  const INSTEAD = "Use sslmode=verify-full, or sslmode=disable if the server has no TLS.";
  test.each([
    ["sslmode=allow", `has sslmode=allow, which may connect without TLS. ${INSTEAD}`],
    ["sslmode=prefer", `has sslmode=prefer, which may connect without TLS. ${INSTEAD}`],
    ["sslmode=verify_full", "has an unknown sslmode. Use one of disable, require, verify-ca, verify-full, no-verify."],
    ["sslmode=", "has an unknown sslmode. Use one of disable, require, verify-ca, verify-full, no-verify."],
    ["ssl=prefer", `has an unknown value of ssl. ${INSTEAD}`],
  ])("a database URL with %s is refused, and the error says what to write instead", (parameters, message) => {
    for (const name of ["DATABASE_URL", "DATABASE_DIRECT_URL"])
      expect(readErrors({ [name]: `postgres://u:p@db.example/forms?${parameters}` })).toEqual([`${name} ${message}`]);
  });

  test.each([
    [{}, ["SMTP_FROM", "FORM_URL_TEMPLATE"]],
    [{ SMTP_FROM: "hosts@example.com" }, ["FORM_URL_TEMPLATE"]],
    [{ FORM_URL_TEMPLATE: MAIL.FORM_URL_TEMPLATE, SMTP_FROM: "" }, ["SMTP_FROM"]],
  ])("SMTP_URL with %j reports each missing setting that mail requires", (env, missing) => {
    const allowed = { SMTP_FROM: SENDER, FORM_URL_TEMPLATE: TEMPLATE };
    const lines = missing.map(
      (name) => `${name} is not set, but SMTP_URL requires it: ${allowed[name as keyof typeof allowed]}.`,
    );
    expect(readErrors({ SMTP_URL: MAIL.SMTP_URL, ...env })).toEqual(lines);
  });

  test("all invalid settings are reported, one per line, also if a value has line breaks", () => {
    const lines = readErrors({ PORT: "x", LOG_LEVEL: "a\nb\r\nc", APP_SECRETS: "z", CORS_ORIGINS: "a,b,c" });
    const names = lines.map((line) => line.split(" ")[0]);
    expect(names.sort()).toEqual(["APP_SECRETS", "CORS_ORIGINS", "LOG_LEVEL", "PORT"]);
  });
});
