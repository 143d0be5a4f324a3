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

describe("unset settings", () => {
  test("have the documented defaults", () => {
    expect(readSettings({})).toMatchObject({
      HOST: "127.0.0.1",
      PORT: 3000,
      DATABASE_POOL_SIZE: 10,
      RATE_LIMIT_MAX: 600,
      RATE_LIMIT_WINDOW_SECONDS: 60,
      BAD_KEY_LIMIT_MAX: 100,
      TRUST_PROXY: 0,
      BODY_MAX_BYTES: 16_384,
      BODY_MAX_FIELDS: 32,
      BODY_MAX_DEPTH: 8,
      LOG_LEVEL: "info",
      SMTP_TIMEOUT_SECONDS: 120,
      RETENTION_DAYS: 90,
      AUDIT_RETENTION_DAYS: 730,
      NOTIFICATION_RETENTION_DAYS: 90,
      IDEMPOTENCY_KEY_RETENTION_DAYS: 90,
    });
    for (const name of [
      "DATABASE_URL",
      "APP_SECRETS",
      "SMTP_URL",
      "SMTP_FROM",
      "FORM_URL_TEMPLATE",
      "REDIS_URL",
      "CORS_ORIGINS",
    ] as const) {
      expect(readSettings({})[name]).toBeUndefined();
    }
  });

  test("an empty value counts as unset, and unknown variables are ignored", () => {
    const empty = Object.fromEntries(Object.keys(settingsSchema.shape).map((name) => [name, ""]));
    expect(readSettings({ ...empty, PATH: "/bin", UNKNOWN: "x" })).toEqual(readSettings({}));
  });

  test("every setting has a description", () => {
    for (const [name, schema] of Object.entries(settingsSchema.shape)) {
      expect([name, schema.description ?? ""]).toEqual([name, expect.stringMatching(/\w{3,}/)]);
    }
  });
});

describe("valid settings", () => {
  test.each<[keyof Settings, string, unknown]>([
    ["DATABASE_URL", "postgresql://u:p@db.example/forms", "postgresql://u:p@db.example/forms"],
    ["PORT", "0", 0],
    ["PORT", "65535", 65_535],
    ["RATE_LIMIT_MAX", "1", 1],
    ["RATE_LIMIT_MAX", "1000000000", 1_000_000_000],
    ["RETENTION_DAYS", "0", 0],
    ["OTEL_SDK_DISABLED", "true", true],
    ["OTEL_SDK_DISABLED", "TRUE", true],
    ["OTEL_SDK_DISABLED", "False", false],
    ["OTEL_TRACES_SAMPLER_ARG", "0", 0],
    ["OTEL_TRACES_SAMPLER_ARG", ".25", 0.25],
    ["APP_SECRETS", `${"a".repeat(32)} , ${"b".repeat(40)}`, ["a".repeat(32), "b".repeat(40)]],
    ["REDIS_URL", "rediss://cache.example", "rediss://cache.example"],
    [
      "CORS_ORIGINS",
      "https://a.example, http://localhost:5173",
      ["https://a.example", "http://localhost:5173"],
    ],
    ["CORS_ORIGINS", "*", ["*"]],
    ["FORM_URL_TEMPLATE", "https://x.example/f/{publicId}?s=1", "https://x.example/f/{publicId}?s=1"],
    ["LOG_LEVEL", "silent", "silent"],
  ])("%s accepts %s", (name, value, read) => {
    expect(readSettings({ [name]: value })[name]).toEqual(read);
  });

  test("SMTP_URL is accepted together with SMTP_FROM and FORM_URL_TEMPLATE", () => {
    const mail = {
      SMTP_URL: "smtps://u:p@mail.example:465",
      SMTP_FROM: "Hosts <hosts@example.com>",
      FORM_URL_TEMPLATE: "https://x.example/{publicId}",
    };
    expect(readSettings(mail)).toMatchObject(mail);
  });
});

describe("invalid settings", () => {
  test.each([
    ["PORT", "65536", "an integer from 0 to 65535"],
    ["PORT", "-1", "an integer from 0 to 65535"],
    ["PORT", "3000.5", "an integer from 0 to 65535"],
    ["PORT", "http", "an integer from 0 to 65535"],
    ...["0x10", "1e3", "10.0", "+10", " ", " 10", "10 ", "1_000", "١٠", "9".repeat(400)].map((value) => [
      "PORT",
      value,
      "an integer from 0 to 65535",
    ]),
    ["OTEL_SDK_DISABLED", "yes", "true or false"],
    ["OTEL_SDK_DISABLED", "1", "true or false"],
    ["OTEL_TRACES_SAMPLER_ARG", "1.5", "a number from 0 to 1"],
    ["DATABASE_POOL_SIZE", "0", "an integer from 1 to 1000"],
    ["DATABASE_STATEMENT_TIMEOUT_MS", "10", "an integer from 50 to 600000"],
    ["RATE_LIMIT_MAX", "many", "an integer from 1 to 1000000000"],
    ["RATE_LIMIT_WINDOW_SECONDS", "0", "an integer from 1 to 86400"],
    ["BODY_MAX_BYTES", "16k", "an integer from 1 to 10000000"],
    ["TRUST_PROXY", "true", "an integer from 0 to 32"],
    ["LOG_LEVEL", "loud", "fatal, error, warn, info, debug, trace or silent"],
    ["FORM_URL_TEMPLATE", "https://x.example/", "an http or https URL containing {publicId}"],
    ["FORM_URL_TEMPLATE", "{publicId}", "an http or https URL containing {publicId}"],
    ["FORM_URL_TEMPLATE", "javascript:{publicId}", "an http or https URL containing {publicId}"],
    ["CORS_ORIGINS", "https://a.example/", 'comma-separated origins such as https://app.example.com, or "*"'],
    ["CORS_ORIGINS", "a.example", 'comma-separated origins such as https://app.example.com, or "*"'],
    ["SMTP_FROM", "x", "an email address, with or without a name"],
  ])("%s=%s is reported in one line with its value and the allowed values", (name, value, allowed) => {
    expect(readErrors({ [name]: value })).toEqual([`${name} is "${value}", but must be ${allowed}.`]);
  });

  test.each([
    ["DATABASE_URL", "mysql://user:hunter2@db.example", "a URL such as postgres://…"],
    ["DATABASE_URL", "hunter2", "a URL such as postgres://…"],
    ["REDIS_URL", "hunter2:6379", "a URL such as redis://…"],
    ["APP_SECRETS", "hunter2", "comma-separated secrets of at least 32 characters each"],
    ["APP_SECRETS", `${"a".repeat(32)},hunter2`, "comma-separated secrets of at least 32 characters each"],
    ["APP_SECRETS", `${"hunter2".repeat(9)},`, "comma-separated secrets of at least 32 characters each"],
  ])("%s is a secret: the error does not show its value", (name, value, allowed) => {
    const line = `${name} is a value of ${value.length} characters, but must be ${allowed}.`;
    expect(readErrors({ [name]: value })).toEqual([line]);
    expect(line).not.toContain("hunter2");
  });

  test.each([
    [{}, ["SMTP_FROM", "FORM_URL_TEMPLATE"]],
    [{ SMTP_FROM: "hosts@example.com" }, ["FORM_URL_TEMPLATE"]],
    [{ FORM_URL_TEMPLATE: "https://x.example/{publicId}", SMTP_FROM: "" }, ["SMTP_FROM"]],
  ])("SMTP_URL with %j reports each missing setting that mail requires", (env, missing) => {
    const lines = {
      SMTP_FROM: "SMTP_FROM is not set, but SMTP_URL requires it: an email address, with or without a name.",
      FORM_URL_TEMPLATE:
        "FORM_URL_TEMPLATE is not set, but SMTP_URL requires it: an http or https URL containing {publicId}.",
    };
    expect(readErrors({ SMTP_URL: "smtp://mail.example", ...env })).toEqual(
      missing.map((name) => lines[name as keyof typeof lines]),
    );
  });

  test("SMTP_URL is a secret: the error does not show its value", () => {
    const url = "http://user:hunter2@mail.example";
    const mail = {
      SMTP_URL: url,
      SMTP_FROM: "hosts@example.com",
      FORM_URL_TEMPLATE: "https://x.example/{publicId}",
    };
    expect(readErrors(mail)).toEqual([
      `SMTP_URL is a value of ${url.length} characters, but must be a URL such as smtp://….`,
    ]);
  });

  test("all invalid settings are reported, one per line", () => {
    const lines = readErrors({ PORT: "x", LOG_LEVEL: "y", APP_SECRETS: "z", CORS_ORIGINS: "a,b,c" });
    expect(lines.map((line) => line.split(" ")[0]).sort()).toEqual([
      "APP_SECRETS",
      "CORS_ORIGINS",
      "LOG_LEVEL",
      "PORT",
    ]);
  });

  test("a value with line breaks is reported in one line", () => {
    expect(readErrors({ LOG_LEVEL: "a\nb\r\nc" })).toHaveLength(1);
  });
});
