import { readFileSync } from "node:fs";
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import { examine } from "../../gateway/doctor/examine.js";
import { findLinkProblems, findSettingProblems } from "../../gateway/doctor/settings.js";
import { readSettings } from "../../server/config.js";
import { createTestDatabase } from "../support/database.js";
import { LOCALHOST_PEM } from "../support/hostile-receivers.js";
import { mailEnv, startMailServer } from "../support/mail-server.js";
import { freePort } from "../support/network.js";
import { runCli, spawnCli } from "../support/processes.js";
import { commandsWith } from "../support/run-in-process.js";

// What is said about settings that cannot be right, and what to do. Invalid settings are in test/server/config.test.ts, sslmode
// in test/server/postgres-tls.test.ts, and TRUST_PROXY in test/gateway/trust-proxy.test.ts.

const { url: DATABASE_URL } = await createTestDatabase();
const TOKEN = "t".repeat(32);
const MAIL = mailEnv("smtps://host:secret@mail.example.com");
const PRODUCTION = { NODE_ENV: "production", ...MAIL, PUBLIC_URL: "https://forms.example.com" };

/** What `doctor`, `serve` and `worker` warn about. */
function findProblems(env: Record<string, string>): string[] {
  const settings = readSettings(env);
  return [...findSettingProblems(settings, env), ...findLinkProblems(settings)];
}

test.each<[set: string, env: Record<string, string>, said: RegExp]>([
  [
    "a link to localhost",
    { FORM_URL_TEMPLATE: "http://localhost:5173/register/{publicId}" },
    /^FORM_URL_TEMPLATE leads to localhost, which guests cannot reach: set it to a public https URL\.$/,
  ],
  ["a link to a private address", { FORM_URL_TEMPLATE: "https://192.168.1.7/{publicId}" }, /leads to 192\.168\.1\.7,/],
  [
    "a link to an IPv6 loopback",
    { FORM_URL_TEMPLATE: "https://[::1]/{publicId}" },
    /leads to \[::1\], .* cannot reach/,
  ],
  ["a link in a local domain", { FORM_URL_TEMPLATE: "https://app.local/{publicId}" }, /leads to app\.local,/],
  ["a link to a name without a domain", { FORM_URL_TEMPLATE: "https://app/register/{publicId}" }, /leads to app,/],
  ["a link to a carrier-grade NAT address", { PUBLIC_URL: "https://100.64.0.1" }, /leads to 100\.64\.0\.1,/],
  [
    "a link without TLS",
    { FORM_URL_TEMPLATE: "http://app.example.com/{publicId}" },
    /^FORM_URL_TEMPLATE is an http URL, which anybody on the network path can read: use https\.$/,
  ],
  [
    "a privacy notice in the internal network",
    { EMAIL_PRIVACY_URL: "https://intranet.internal/privacy" },
    /^EMAIL_PRIVACY_URL leads to intranet\.internal, which guests cannot reach/,
  ],
  [
    "an API on localhost",
    { PUBLIC_URL: "http://127.0.0.1:3000" },
    /^PUBLIC_URL leads to 127\.0\.0\.1, which clients outside your network cannot reach/,
  ],
  [
    "the internal port on all interfaces",
    { INTERNAL_HOST: "0.0.0.0", INTERNAL_TOKEN: TOKEN },
    /^INTERNAL_HOST 0\.0\.0\.0 is all interfaces: the console and INTERNAL_TOKEN are sent over plain HTTP\. Set it to 127\.0\.0\.1,/,
  ],
  ["the same with IPv6", { INTERNAL_HOST: "::", INTERNAL_TOKEN: TOKEN }, /^INTERNAL_HOST :: is all interfaces: /],
  [
    "the internal port on a public address, also in a container",
    { INTERNAL_HOST: "203.0.113.7", INTERNAL_TOKEN: TOKEN, container: "docker" },
    /^INTERNAL_HOST 203\.0\.113\.7 is a public address: the console and INTERNAL_TOKEN are sent over plain HTTP\. Set it to 127/,
  ],
  [
    "the internal port on a public IPv6 address",
    { INTERNAL_HOST: "2001:4860::1", INTERNAL_TOKEN: TOKEN },
    /^INTERNAL_HOST 2001:4860::1 is a public address: /,
  ],
  [
    "a mail server with a password and without TLS",
    { SMTP_URL: "smtp://host:secret@mail.example.com:587" },
    /^SMTP_URL has smtp:\/\/ with a password, which is sent in clear text if .*: add \?requireTLS=true, or use smtps:\/\/\.$/,
  ],
  [
    "smtp:// with the port of implicit TLS",
    { SMTP_URL: "smtp://host:secret@mail.example.com:465" },
    /^SMTP_URL has smtp:\/\/ with port 465, which uses implicit TLS: use smtps:\/\/, or port 587\.$/,
  ],
  [
    "smtps:// with a port of STARTTLS",
    { SMTP_URL: "smtps://host:secret@mail.example.com:587" },
    /^SMTP_URL has smtps:\/\/ with port 587, which uses STARTTLS: use smtp:\/\/ with \?requireTLS=true, or port 465\.$/,
  ],
  [
    "a mail server whose certificate is not verified",
    { SMTP_URL: "smtps://host:secret@mail.example.com?tls.rejectUnauthorized=false" },
    /^SMTP_URL has tls\.rejectUnauthorized=false: .* Remove it, and set NODE_EXTRA_CA_CERTS/,
  ],
  [
    "a database whose certificate is not verified",
    { DATABASE_URL: "postgres://u:secret@db.example.com/forms?sslmode=no-verify" },
    /^DATABASE_URL has sslmode=no-verify: .* Use sslmode=verify-full, with sslrootcert=FILE/,
  ],
  [
    "an unknown setting",
    { RETENTION_DAY: "30" },
    /^Unknown settings: RETENTION_DAY \(did you mean RETENTION_DAYS\?\)\./,
  ],
])("%s is a warning that says what to do, and shows no password", (_, env, said) => {
  const problems = findProblems({ ...PRODUCTION, ...env });
  expect(problems).toEqual([expect.stringMatching(said)]);
  expect(problems[0]).not.toContain("secret");
});

test.each(["prod", "Production", "production ", "staging"])("NODE_ENV=%j is a warning", (NODE_ENV) => {
  expect(findProblems({ NODE_ENV })).toEqual([
    `NODE_ENV is ${JSON.stringify(NODE_ENV)}, which counts as development: set it to production, development or test.`,
  ]);
});

test.each<[set: string, env: Record<string, string>]>([
  ["nothing", {}],
  ["a complete production", { ...PRODUCTION, EMAIL_PRIVACY_URL: "https://example.com/privacy", INTERNAL_TOKEN: TOKEN }],
  ["a container", { ...PRODUCTION, container: "docker", INTERNAL_HOST: "0.0.0.0", INTERNAL_TOKEN: TOKEN }],
  ["an internal port on a private address", { ...PRODUCTION, INTERNAL_HOST: "10.0.0.7", INTERNAL_TOKEN: TOKEN }],
  ["an internal port on a host name", { ...PRODUCTION, INTERNAL_HOST: "localhost", INTERNAL_TOKEN: TOKEN }],
  ["an internal port that is not opened", { ...PRODUCTION, INTERNAL_HOST: "0.0.0.0" }],
  ["links to localhost in development", { ...MAIL, FORM_URL_TEMPLATE: "http://localhost:5173/{publicId}" }],
  ["STARTTLS that is required", { ...MAIL, SMTP_URL: "smtp://host:secret@mail.example.com:587?requireTLS=true" }],
  ["a mail server without a password", { ...MAIL, SMTP_URL: "smtp://mail.example.com:25" }],
  ["a mail server on this machine", { ...MAIL, SMTP_URL: "smtp://host:secret@localhost:1025" }],
  ["the file of systemd", { NODE_ENV: "production", ...readEnvFile("deploy/guest-forms.env") }],
])("%s is no warning", (_, env) => {
  expect(findProblems(env)).toEqual([]);
});

/** The settings in a file of systemd. */
function readEnvFile(path: string): Record<string, string> {
  const lines = readFileSync(path, "utf8").matchAll(/^([A-Z_]+)=(.*)$/gm);
  return Object.fromEntries([...lines].map(([, name = "", value = ""]) => [name, value.replace(/^"|"$/g, "")]));
}

test("the image sets `container`, without which Compose's INTERNAL_HOST would be a warning", () => {
  expect(readFileSync("Dockerfile", "utf8")).toMatch(/^ENV .*\bcontainer=docker\b/m);
  expect(readFileSync("compose.yaml", "utf8")).toContain("INTERNAL_HOST: 0.0.0.0");
});

describe("a server that cannot be used", () => {
  const pem = readFileSync(LOCALHOST_PEM, "utf8");
  const loginFails = { onAuth: (_auth: unknown, _session: unknown, done: (error: Error) => void) => done(REJECTED) };
  const REJECTED = Object.assign(new Error("wrong"), { responseCode: 535 });
  const servers = Promise.all([
    startMailServer({ authOptional: false, ...loginFails }),
    startMailServer({ key: pem, cert: pem }),
    startMailServer({ secure: true, key: pem, cert: pem }),
  ]);
  afterAll(async () => void (await Promise.all((await servers).map((server) => server.close()))));
  afterEach(() => void vi.unstubAllEnvs());
  const ports = async () => (await servers).map(({ port }) => port) as [number, number, number];
  const TIMEOUT = { SMTP_TIMEOUT_SECONDS: "1" };

  test.each<[set: string, url: (ports: [number, number, number]) => string | Promise<string>, said: RegExp]>([
    [
      "smtps:// with a port of STARTTLS",
      ([, startTls]) => `smtps://host:s3cr3t@localhost:${startTls}`,
      /This port does not use implicit TLS: use smtp:\/\/ in SMTP_URL, with \?requireTLS=true and port 587\.$/,
    ],
    [
      "smtp:// with a port of implicit TLS",
      ([, , tls]) => `smtp://host:s3cr3t@localhost:${tls}`,
      /(Greeting never received|Timeout)\. Use smtps:\/\/ in SMTP_URL if the port uses implicit TLS, such as 465\./,
    ],
    [
      "a certificate of an unknown authority",
      ([, , tls]) => `smtps://host:s3cr3t@localhost:${tls}`,
      /self-signed certificate.*\. .*set NODE_EXTRA_CA_CERTS to a file with the certificate of the authority\.$/,
    ],
    [
      "a wrong password",
      ([login]) => `smtp://host:s3cr3t@localhost:${login}`,
      /535 wrong\. Check the user name and the password in SMTP_URL\. Special characters must be percent-encoded\.$/,
    ],
    [
      "TLS that the server does not offer",
      ([login]) => `smtp://host:s3cr3t@localhost:${login}?requireTLS=true`,
      /The server must offer STARTTLS for \?requireTLS=true: use smtps:\/\/ in SMTP_URL, with port 465\.$/,
    ],
    [
      "a port where nothing listens",
      async () => `smtp://host:s3cr3t@127.0.0.1:${await freePort()}`,
      /ECONNREFUSED .*\. Nothing listens there: start the server, or correct the host and the port in SMTP_URL\.$/,
    ],
    [
      "a host that does not exist",
      () => "smtp://host:s3cr3t@mail.invalid",
      /mail\.invalid\. The host name is unknown: check it in SMTP_URL, and the DNS of this machine\.$/,
    ],
  ])("SMTP_URL has %s: `doctor` and `emails test` say what to do", async (_, urlOf, said) => {
    const env = { ...mailEnv(await urlOf(await ports())), ...TIMEOUT };
    const reports = await examine({ settings: readSettings(env), env, processes: 1, worker: true }, ["mail server"]);
    const { message } = reports.find(({ name }) => name === "mail server") ?? {};
    expect(message).toMatch(said);
    const [code, line] = await commandsWith(env).failure("emails", "test", "--to", "you@example.com");
    expect([code, line]).toEqual([1, expect.stringMatching(said)]);
    expect(`${message} ${line}`).not.toMatch(/s3cr3t|SSL routines/);
  });

  test.each<[set: string, url: (ports: [number, number, number]) => string | Promise<string>, said: RegExp]>([
    [
      "a port where nothing listens",
      async () => `redis://:s3cr3t@127.0.0.1:${await freePort()}`,
      /ECONNREFUSED .*\. Nothing listens there: start the server, or correct the host and the port in REDIS_URL\.$/,
    ],
    ["a host that does not exist", () => "redis://redis.invalid", /The host name is unknown: check it in REDIS_URL, /],
    [
      "rediss:// for a server without TLS",
      ([login]) => `rediss://:s3cr3t@localhost:${login}`,
      /The server does not use TLS: use redis:\/\/ in REDIS_URL\.$/,
    ],
    [
      "redis:// for a server with TLS",
      ([, , tls]) => `redis://:s3cr3t@localhost:${tls}`,
      /Use rediss:\/\/ in REDIS_URL if the server uses TLS\.$/,
    ],
  ])("REDIS_URL has %s: `doctor` says what to do", async (_, urlOf, said) => {
    const env = { REDIS_URL: await urlOf(await ports()) };
    const reports = await examine({ settings: readSettings(env), env, processes: 1, worker: true }, ["redis"]);
    const { message } = reports.find(({ name }) => name === "redis") ?? {};
    expect(message).toMatch(said);
    expect(message).not.toMatch(/s3cr3t|SSL routines/);
  });

  test.each<[set: string, change: (url: URL) => unknown, said: RegExp]>([
    [
      "a wrong password",
      (url) => Object.assign(url, { password: "s3cr3t" }),
      /^The database at \S+ rejected the user name or password: check DATABASE_URL\. Special characters must be percent-encoded\.$/,
    ],
    [
      "a host that does not exist",
      (url) => Object.assign(url, { hostname: "db.invalid" }),
      /^The database at db\.invalid:\d+ cannot be reached .*\((ENOTFOUND|EAI_AGAIN)\)\. The host name is unknown: check it in DATABASE_URL,/,
    ],
    [
      "a port where nothing listens",
      async (url) => Object.assign(url, { port: await freePort() }),
      /cannot be reached .*\(ECONNREFUSED\)\. Nothing listens there: start the server, or correct the host and the port in DATABASE_URL\.$/,
    ],
    [
      "a file that does not exist",
      (url) => Object.assign(url, { search: "sslmode=verify-full&sslrootcert=/nowhere/ca.pem" }),
      /^Cannot read \/nowhere\/ca\.pem \(ENOENT\): check sslrootcert in the URL of the database\.$/,
    ],
  ])("DATABASE_URL has %s: `doctor` and other commands say what to do", async (_, change, said) => {
    const url = new URL(DATABASE_URL);
    await change(url);
    const env = { DATABASE_URL: url.href };
    const [report] = await examine({ settings: readSettings(env), env, processes: 1, worker: true }, []);
    expect(report).toEqual({ name: "database", status: "failed", message: expect.stringMatching(said) });
    expect(await commandsWith(env).failure("keys", "list")).toEqual([1, expect.stringMatching(said)]);
    expect(await commandsWith(env).failure("migrate")).toEqual([1, expect.stringMatching(said)]);
  });
});

describe("the real commands", () => {
  test("doctor says all that is wrong, and shows an example of the guest's link", async () => {
    const env = { DATABASE_URL, ...PRODUCTION, SMTP_URL: "smtp://host:s3cr3t@127.0.0.1:465", NODE_ENV: "prod" };
    const { stdout, stderr } = await runCli(["doctor"], { env });
    expect(stderr).toBe("");
    expect(stdout).toMatch(/^warning +settings +NODE_ENV is "prod", .* SMTP_URL has smtp:\/\/ with port 465/m);
    expect(stdout).toMatch(/^ok +links +The link of a guest is like https:\/\/forms\.example\.com\/\S{21}\.$/m);
    expect(stdout).toMatch(/^failed +mail server +.*ECONNREFUSED.* in SMTP_URL\.$/m);
    expect(stdout).not.toContain("s3cr3t");
  });

  test("serve and worker each log the warnings once, and start", async () => {
    const env = { DATABASE_URL, NODE_ENV: "production", FORM_URL_TEMPLATE: "http://localhost/{publicId}", PORT: "0" };
    const serve = spawnCli(["serve", "--no-worker"], { env });
    await serve.waitForLine(/Listening on/);
    const worker = spawnCli(["worker"], { env });
    await worker.waitForLine(/^Sending emails/);
    for (const { stderr } of [await serve.stop(), await worker.stop()]) {
      const lines = stderr.trimEnd().split("\n");
      const warnings = lines.map((line) => JSON.parse(line)).filter(({ check }) => check === "links");
      const msg = expect.stringMatching(/^FORM_URL_TEMPLATE leads to localhost/);
      expect(warnings).toEqual([expect.objectContaining({ level: 40, msg })]);
    }
  });

  test("a link template that would be dead ends the start", async () => {
    const env = { DATABASE_URL, FORM_URL_TEMPLATE: `https://app.example.com/${"$"}{publicId}` };
    const { stderr, code } = await runCli(["serve"], { env });
    expect({ stderr, code }).toEqual({
      stderr: expect.stringMatching(
        /^error: FORM_URL_TEMPLATE is .* with \{publicId\} in its path or query, not \$\{publicId\} or/,
      ),
      code: 1,
    });
  });
});
