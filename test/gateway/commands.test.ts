import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createLog } from "../../gateway/process/log.js";
import { packageRoot } from "../../prisma/package-root.js";
import { type Caller, createCaller } from "../../server/caller.js";
import { readSettings } from "../../server/config.js";
import { openServices } from "../../server/services.js";
import { createTestDatabase, freePort, type ProcessResult, runCli, spawnCli, spawnNode } from "../harness.js";
import { mailEnv, startMailServer } from "../server/mail-server.js";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";

/** Generous, because the machine may be loaded. */
const TIMEOUT = { timeout: 240_000 };

let url: string;
let operator: Caller;
let close: () => Promise<void>;
/** A folder without a running `dev`. */
let folder: string;

beforeAll(async () => {
  ({ url } = await createTestDatabase());
  const opened = await openServices(readSettings({ DATABASE_URL: url }), createLog("silent"));
  operator = createCaller(opened.services, { kind: "operator" });
  close = opened.close;
  folder = await mkdtemp(join(tmpdir(), "guest-forms-commands-"));
});

afterAll(async () => {
  await close();
  await rm(folder, { recursive: true, force: true });
});

const cli = (args: string[], env: Record<string, string> = {}) =>
  runCli(args, { env: { DATABASE_URL: url, ...env }, cwd: folder });

/** Runs a command with --json that must succeed and print exactly one line. */
async function runJson(...args: string[]) {
  const { stdout, stderr, code } = await cli([...args, "--json"]);
  expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
  expect(stdout.trimEnd().split("\n")).toHaveLength(1);
  return JSON.parse(stdout);
}

/** Runs a command that must succeed and print text. */
async function runText(...args: string[]): Promise<string> {
  const { stdout, stderr, code } = await cli(args);
  expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
  expect(() => JSON.parse(stdout)).toThrow();
  return stdout;
}

/** A failure is one line on standard error and nothing on standard output. */
function expectFailure({ stdout, stderr, code }: ProcessResult, exitCode: number, message: RegExp): void {
  expect(stderr).toMatch(message);
  expect({ stdout, code }).toEqual({ stdout: "", code: exitCode });
  expect(stderr).toMatch(/^error: [^\n]+\n$/);
  expect(stderr).not.toMatch(/\bat .*:\d+:\d+|node:internal/);
}

let counter = 0;
const newUser = async (core = operator) =>
  (await core.users.create({ email: `user${++counter}@example.com` })).id;

const requiredOptions = [
  ...["--title", "Loft", "--address", "Kanalweg 7", "--city", "Berlin", "--country", "Germany"],
  ...["--zip-code", "10997", "--timezone", "Europe/Berlin"],
];
const newListing = async (ownerId: string, core = operator) =>
  (
    await core.listings.create({
      ownerId,
      title: "Loft",
      address: "Kanalweg 7",
      city: "Berlin",
      country: "Germany",
      zipCode: "10997",
      timezone: "Europe/Berlin",
    })
  ).id;

describe.concurrent("data commands", TIMEOUT, () => {
  it("users create prints the user, and rejects an address that is already used", async () => {
    const user = await runJson("users", "create", "--email", "Ada@Example.COM", "--name", "Ada");
    expect(user).toMatchObject({ email: "Ada@example.com", name: "Ada" });
    expect(user.id).toMatch(UUID);
    expect(await runText("users", "create", "--email", "b@example.com")).toMatch(/^id: +[0-9a-f-]{36}\n/);
    expectFailure(
      await cli(["users", "create", "--email", "ada@example.com"]),
      2,
      new RegExp(`--email: a user with this address already exists: ${user.id}\\n`),
    );
  });

  it("listings create prints the listing", async () => {
    const owner = await newUser();
    const full = [
      "--district",
      "Kreuzberg",
      "--max-people",
      "4",
      "--max-vehicles",
      "0",
      "--allow-pets",
      "false",
    ];
    const listing = await runJson(
      "listings",
      "create",
      "--owner",
      owner,
      ...requiredOptions,
      ...full,
      "--inactive",
    );
    expect(listing).toEqual({
      id: expect.stringMatching(UUID),
      publicId: expect.stringMatching(/^[\w-]{21}$/),
      title: "Loft",
      address: "Kanalweg 7",
      city: "Berlin",
      country: "Germany",
      zipCode: "10997",
      district: "Kreuzberg",
      timezone: "Europe/Berlin",
      active: false,
      maxPeopleInListing: 4,
      maxVehicles: 0,
      allowPets: false,
      createdAt: expect.stringMatching(INSTANT),
    });
    const plain = await runJson("listings", "create", "--owner", owner, ...requiredOptions);
    expect(plain).toMatchObject({ active: true, district: null, maxPeopleInListing: null, allowPets: null });
    expect(await runText("listings", "create", "--owner", owner, ...requiredOptions)).toMatch(
      /\ntitle: +Loft\n/,
    );
  });

  it("every rejected field of a command is reported by its option", async () => {
    const args = [
      "listings",
      "create",
      "--owner",
      await newUser(),
      ...requiredOptions,
      "--timezone",
      "Mars/Base",
      "--max-people",
      "0",
    ];
    expectFailure(await cli(args), 2, /--timezone: must be an IANA.*; --max-people: must be at least 1/);
  });

  it("members set and remove print the membership, with the role as it is typed", async () => {
    const [owner, other] = [await newUser(), await newUser()];
    const listing = await newListing(owner);
    const of = ["--listing", listing, "--user", other];
    const membership = { listingId: listing, userId: other, role: "writer" };
    expect(await runJson("members", "set", ...of, "--role", "writer")).toEqual(membership);
    expect(await runText("members", "set", ...of, "--role", "reader")).toMatch(/role: +reader\n/);
    expect(await runJson("members", "remove", ...of)).toEqual({ ...membership, role: "reader" });
    expectFailure(await cli(["members", "remove", ...of]), 1, /This user has no role on this listing/);
    expectFailure(
      await cli(["members", "set", ...of, "--role", "OWNER"]),
      2,
      /Allowed choices are owner, writer/,
    );
  });

  it("keys issue prints the key, and keys list never does", async () => {
    const user = await newUser();
    const issued = await runJson("keys", "issue", "--user", user, "--mode", "read-write");
    expect(issued).toEqual({
      id: expect.stringMatching(UUID),
      key: expect.stringMatching(/^grf_rw_[0-9A-Za-z]{49}$/),
      prefix: issued.key.slice(0, 12),
      mode: "read-write",
      expiresAt: null,
    });
    const optional = ["--label", "channel manager", "--expires-at", "2099-01-01T01:00:00+01:00"];
    const output = await runText("keys", "issue", "--user", user, "--mode", "read-only", ...optional);
    expect(output).toMatch(
      /key: +grf_ro_\w{49}\n[\s\S]*expiresAt: +2099-01-01T00:00:00.000Z\n[\s\S]*not shown again/,
    );
    const keys = await runJson("keys", "list", "--user", user);
    expect(keys).toMatchObject([
      { id: issued.id, userId: user, mode: "read-write", label: null, revokedAt: null, lastUsedAt: null },
      { mode: "read-only", label: "channel manager", expiresAt: "2099-01-01T00:00:00.000Z" },
    ]);
    const table = await runText("keys", "list");
    expect(table).toMatch(/^ID +USER ID +PREFIX +MODE/);
    expect(table + JSON.stringify(keys)).not.toContain(issued.key);
    expectFailure(
      await cli(["keys", "issue", "--user", UNKNOWN_ID, "--mode", "read-only"]),
      2,
      /--user: no user/,
    );
    const invalidExpiry = [
      "keys",
      "issue",
      "--user",
      user,
      "--mode",
      "read-only",
      "--expires-at",
      "tomorrow",
    ];
    expectFailure(await cli(invalidExpiry), 2, /--expires-at: must be an ISO 8601 instant/);
  });

  it("keys rotate prints the new key and when the old one expires", async () => {
    const user = await newUser();
    const old = await operator.keys.issue({ userId: user, mode: "READ_ONLY" });
    const fresh = await runJson("keys", "rotate", old.id, "--grace", "2h");
    expect(fresh).toEqual({
      id: expect.stringMatching(UUID),
      key: expect.stringMatching(/^grf_ro_/),
      prefix: fresh.key.slice(0, 12),
      mode: "read-only",
      expiresAt: null,
      replaces: { id: old.id, expiresAt: expect.stringMatching(INSTANT) },
    });
    const hours = (Date.parse(fresh.replaces.expiresAt) - Date.now()) / 3_600_000;
    expect(hours).toBeGreaterThan(1.9);
    expect(hours).toBeLessThanOrEqual(2);
    expect(await runText("keys", "rotate", fresh.id)).toMatch(/replaces\.expiresAt: +\d{4}-/);
  });

  it("keys rotate rejects an unknown key and an invalid grace period", async () => {
    expectFailure(await cli(["keys", "rotate", UNKNOWN_ID]), 1, /There is no key with this id/);
    expectFailure(
      await cli(["keys", "rotate", UNKNOWN_ID, "--grace", "2 weeks"]),
      2,
      /--grace.*s, m, h or d/,
    );
    expectFailure(
      await cli(["keys", "rotate", UNKNOWN_ID, "--grace", "366d"]),
      2,
      /--grace: must be at most a year/,
    );
  });

  it("keys revoke prints when the key was revoked, also if it is repeated", async () => {
    const user = await newUser();
    const { id } = await operator.keys.issue({ userId: user, mode: "READ_ONLY" });
    const revoked = await runJson("keys", "revoke", id);
    expect(revoked).toMatchObject({ id, mode: "read-only", revokedAt: expect.stringMatching(INSTANT) });
    expect(await runText("keys", "revoke", id)).toContain(revoked.revokedAt);
    expectFailure(await cli(["keys", "revoke", "nonsense"]), 1, /There is no key with this id/);
  });

  it("an empty list prints a sentence, and [] with --json", async () => {
    const user = await newUser();
    expect(await runJson("keys", "list", "--user", user)).toEqual([]);
    expect(await runText("keys", "list", "--user", user)).toBe("There are no keys.\n");
  });
});

describe.concurrent("usage errors", TIMEOUT, () => {
  it.each([
    [["keyz"], /unknown command 'keyz' \(Did you mean keys\?\)/],
    [["nope"], /unknown command 'nope': see guest-forms --help/],
    [["users", "lst"], /unknown command 'lst' \(Did you mean list\?\)/],
    [["users", "nope"], /unknown command 'nope': see guest-forms users --help/],
    [["keys", "list", "--usr", "x"], /unknown option '--usr' \(Did you mean --user\?\)/],
    [["keys", "list", "extra"], /too many arguments/],
    [["keys", "revoke"], /missing required argument 'id'/],
    [["users", "create"], /required option '--email <address>' not specified/],
    [["users", "create", "--email"], /argument missing/],
    [["users", "create", "--email", "nobody"], /--email: must be an email address/],
    [["serve", "--port", "99999"], /--port.*0 to 65535/],
    [["forms", "set-status", UNKNOWN_ID, "accepted"], /STATUS: must be 1 to 32 of/],
  ] as const)("%j prints one line and exits with 2", async (args, message) => {
    expectFailure(await cli([...args]), 2, message);
  });

  it("a command group without a subcommand prints its help and exits with 2", async () => {
    const { stdout, stderr, code } = await cli(["keys"]);
    expect({ stdout, code }).toEqual({ stdout: "", code: 2 });
    expect(stderr).toMatch(/^Usage: guest-forms keys/);
  });

  it("--help loads neither Prisma, pg, Express nor tRPC", async () => {
    const script = (text: string) => `data:text/javascript,${encodeURIComponent(text)}`;
    const loader = script(`import { writeSync } from "node:fs";
      export function load(url, context, next) {
        writeSync(2, url + "\\n");
        return next(url, context);
      }`);
    const register = script(`import { register } from "node:module"; register(${JSON.stringify(loader)});`);
    const program = join(packageRoot(), "dist/gateway/cli.js");
    for (const command of [[], ["forms"]]) {
      const { stderr, code } = await spawnNode(["--import", register, program, ...command, "--help"]).done;
      expect(code).toBe(0);
      expect(stderr).toContain("/node_modules/commander/");
      expect(stderr).not.toMatch(/\/(node_modules\/(@prisma|pg|express|@trpc)|prisma\/client)\//);
    }
  });

  it("--help and --version print to standard output and exit with 0", async () => {
    const { version } = createRequire(import.meta.url)("../../package.json");
    expect(await runCli(["--version"])).toMatchObject({ stdout: `${version}\n`, stderr: "", code: 0 });
    const help = await runCli(["keys", "rotate", "--help"]);
    expect(help).toMatchObject({ stderr: "", code: 0 });
    expect(help.stdout).toMatch(
      /--grace <span> [\s\S]*default: 24h[\s\S]*Example:\n {2}guest-forms keys rotate/,
    );
    expect((await runCli(["serve", "--help"])).stdout).toMatch(/DRAIN_SECONDS\n[\s\S]*\(default: 10\)/);
  });
});

describe.concurrent("configuration and database errors", TIMEOUT, () => {
  it.each(["keys list", "migrate", "serve", "worker"])(
    "%s reports that DATABASE_URL is not set",
    async (line) => {
      expectFailure(
        await cli(line.split(" "), { DATABASE_URL: "" }),
        1,
        /DATABASE_URL is not set: set it to/,
      );
    },
  );

  it.each(["keys list", "migrate", "serve", "worker", "dev"])(
    "%s with an unreachable database prints its host and port without the password",
    async (line) => {
      const port = await freePort();
      const DATABASE_URL = `postgres://someone:s3cr%2Ft@127.0.0.1:${port}/forms`;
      const { stdout, stderr, code } = await cli(line.split(" "), { DATABASE_URL });
      expect({ stdout, code }).toEqual({ stdout: "", code: 1 });
      expect(stderr).not.toMatch(/s3cr|node:internal|\n +at /);
      expect(stderr).toMatch(new RegExp(`error: [^\\n]*127\\.0\\.0\\.1:${port}[^\\n]*\\n$`));
    },
  );

  it("a database that does not exist and one that was never migrated are reported as such", async () => {
    const missing = new URL(url);
    missing.pathname = "no_such_database";
    expectFailure(
      await cli(["keys", "list"], { DATABASE_URL: missing.href }),
      1,
      /no database no_such_database/,
    );
    const empty = await createTestDatabase({ empty: true });
    expectFailure(
      await cli(["keys", "list"], { DATABASE_URL: empty.url }),
      1,
      /run `guest-forms migrate` first/,
    );
  });

  it("an invalid setting is reported with its value and what is allowed, and a secret without its value", async () => {
    expectFailure(
      await cli(["keys", "list"], { PORT: "abc" }),
      1,
      /PORT is "abc", but must be an integer from/,
    );
    const failed = await cli(["serve"], { APP_SECRETS: "hunter2" });
    expectFailure(failed, 1, /APP_SECRETS is a value of 7 characters, but must be/);
    expect(failed.stderr).not.toContain("hunter2");
  });

  it("without DATABASE_URL, commands use the database of a running `dev`, but never in production", async () => {
    const home = await mkdtemp(join(folder, "dev-"));
    await mkdir(join(home, ".data"));
    await writeFile(join(home, ".data", "database-url"), `${url}\n`, { mode: 0o600 });
    const near = await runCli(["listings", "show", UNKNOWN_ID], { cwd: home });
    expectFailure(near, 1, /There is no listing with this id/);
    const production = await runCli(["keys", "list"], { cwd: home, env: { NODE_ENV: "production" } });
    expectFailure(production, 1, /DATABASE_URL is not set/);
  });
});

describe.concurrent("migrate", TIMEOUT, () => {
  it("two migrate commands at the same time apply each migration once, and a later one applies none", async () => {
    const { url: DATABASE_URL } = await createTestDatabase({ empty: true });
    const runs = await Promise.all([1, 2].map(() => cli(["migrate", "--json"], { DATABASE_URL })));
    expect(runs.map(({ code }) => code)).toEqual([0, 0]);
    const applied = runs.flatMap(({ stdout }) => JSON.parse(stdout).applied);
    expect(applied.length).toBeGreaterThan(0);
    expect(new Set(applied).size).toBe(applied.length);
    expect((await cli(["migrate"], { DATABASE_URL })).stdout).toBe("The database is already up to date.\n");
  });
});

describe.concurrent("serve and worker", TIMEOUT, () => {
  const env = () => ({ DATABASE_URL: url, PORT: "0" });

  it("serve finishes a request in flight after SIGTERM and exits with 0", async () => {
    const owner = await newUser();
    const listingId = await newListing(owner);
    const { key } = await operator.keys.issue({ userId: owner, mode: "READ_WRITE" });
    const serve = spawnCli(["serve", "--json"], { env: env() });
    const [, address = ""] = await serve.waitForLine(/^\{"url":"(.+)"\}$/);
    const body = JSON.stringify({
      listingId,
      checkInDate: "2030-05-01T15:00:00Z",
      checkOutDate: "2030-05-04T10:00:00Z",
      numberOfGuests: 2,
    });
    const sent = request(`${address}/v1/forms`, {
      method: "POST",
      headers: { "X-API-Key": key, "Content-Type": "application/json", "Content-Length": body.length },
    });
    const answered = once(sent, "response");
    sent.write(body.slice(0, 20));
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const stopped = serve.stop("SIGTERM");
    await expect
      .poll(() =>
        fetch(`${address}/livez`).then(
          () => "open",
          () => "closed",
        ),
      )
      .toBe("closed");
    sent.end(body.slice(20));
    const [response] = await answered;
    expect(response.statusCode).toBe(201);
    response.resume();
    const { code, stdout, stderr } = await stopped;
    expect(code).toBe(0);
    expect(stdout).toBe(`{"url":"${address}"}\n`);
    for (const line of stderr.trim().split("\n")) expect(() => JSON.parse(line)).not.toThrow();
  });

  it("serve --no-worker leaves notifications to worker, and set-status and notifications print the state", async () => {
    const { url: DATABASE_URL } = await createTestDatabase();
    const opened = await openServices(readSettings({ DATABASE_URL }), createLog("silent"));
    const core = createCaller(opened.services, { kind: "operator" });
    const run = async (...args: string[]) => {
      const done = await cli([...args, "--json"], { DATABASE_URL });
      expect(done).toMatchObject({ code: 0, stderr: "" });
      return JSON.parse(done.stdout);
    };
    const owner = await newUser(core);
    const listingId = await newListing(owner, core);
    const { key } = await core.keys.issue({ userId: owner, mode: "READ_WRITE" });
    await opened.close();
    const serve = spawnCli(["serve", "--no-worker", "--port", "0"], { env: { DATABASE_URL } });
    const [, address] = await serve.waitForLine(/^Listening on (http:\S+);/);
    const answer = await fetch(`${address}/v1/forms`, {
      method: "POST",
      headers: { "X-API-Key": key, "Content-Type": "application/json" },
      body: JSON.stringify({
        listingId,
        checkInDate: "2030-05-01T15:00:00Z",
        checkOutDate: "2030-05-04T10:00:00Z",
        numberOfGuests: 2,
        guestEmail: "guest@example.com",
      }),
    });
    const form = (await answer.json()) as { id: string };
    expect(answer.status).toBe(201);
    expect(await run("notifications")).toEqual([
      {
        id: expect.any(String),
        formId: form.id,
        state: "waiting",
        attempts: 0,
        lastError: null,
        runAt: expect.stringMatching(INSTANT),
      },
    ]);
    expect((await cli(["notifications"], { DATABASE_URL })).stdout).toMatch(
      /^ID +FORM ID +STATE[\s\S]* waiting /,
    );
    expect(await run("forms", "set-status", form.id, "ACCEPTED")).toMatchObject({ status: "ACCEPTED" });
    expectFailure(
      await cli(["forms", "set-status", form.id, "ACEPTED"], { DATABASE_URL }),
      2,
      /STATUS: must be one of SENT, .*ACCEPTED/,
    );
    const odd = await cli(["forms", "set-status", form.id, "ON_HOLD", "--force"], { DATABASE_URL });
    expect(odd.stdout).toMatch(/status: +UNKNOWN\n/);
    expectFailure(
      await cli(["forms", "set-status", UNKNOWN_ID, "ACCEPTED"], { DATABASE_URL }),
      1,
      /no form with this id/,
    );

    const mailServer = await startMailServer();
    const worker = spawnCli(["worker", "--json"], { env: { DATABASE_URL, ...mailEnv(mailServer.url) } });
    await worker.waitForLine(/^\{"concurrency":2\}$/);
    const [output] = await worker.waitForLine(/"msg":"notification /);
    expect(output).not.toContain("guest@example.com");
    await vi.waitFor(async () => expect(await run("notifications")).toEqual([]), 60_000);
    expect((await worker.stop("SIGINT")).code).toBe(0);
    await mailServer.close();
    expect((await serve.stop("SIGINT")).code).toBe(0);
  });

  it.each([[["serve"]], [["worker"]]])(
    "a closed terminal (SIGHUP) shuts down %j gracefully",
    async (args) => {
      const { url: DATABASE_URL } = await createTestDatabase();
      const running = spawnCli(args, { env: { DATABASE_URL, PORT: "0" } });
      await running.waitForLine(/^(Listening on|Sending notifications)/);
      expect(await running.stop("SIGHUP")).toMatchObject({ code: 0, signal: null });
    },
  );

  it("serve starts while migrations are pending, warns first, and is ready after migrate", async () => {
    const { url: DATABASE_URL } = await createTestDatabase({ empty: true });
    const APP_SECRETS = "0123456789abcdef0123456789abcdef";
    const serve = spawnCli(["serve", "--no-worker"], { env: { DATABASE_URL, APP_SECRETS, PORT: "0" } });
    const [, address] = await serve.waitForLine(/^Listening on (http:\S+);/);
    // Before any other message about the database.
    expect(serve.stderr.split("\n")[0]).toMatch(/migrations are pending: run `guest-forms migrate`/);
    expect((await fetch(`${address}/readyz`)).status).toBe(503);
    await cli(["migrate"], { DATABASE_URL, APP_SECRETS });
    expect((await fetch(`${address}/readyz`)).status).toBe(200);
    expect((await serve.stop()).code).toBe(0);
  });

  it("a port in use is reported in one line", async () => {
    const listener = createServer().listen(0, "127.0.0.1");
    await once(listener, "listening");
    const { port } = listener.address() as { port: number };
    const failed = await cli(["serve", "--port", String(port)], { LOG_LEVEL: "error" });
    expectFailure(failed, 1, new RegExp(`Port ${port} on 127.0.0.1 is in use`));
    listener.close();
  });
});
