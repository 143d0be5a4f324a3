import { join } from "node:path";
import { pino } from "pino";
import { describe, expect, test } from "vitest";
import { LOG_OPTIONS, redactSecrets, toSafeLine } from "../../gateway/runtime/log.js";
import { packageRoot } from "../../prisma/package-root.js";
import { generateKey } from "../../server/keys/authenticator.js";
import { spawnNode } from "../support/processes.js";
import { errorCodeOf } from "../support/response.js";
import { runSql } from "../support/run-sql.js";
import { uniqueStay } from "../support/stays.js";
import { startHolderGateway } from "./holder-gateway.js";

/** As documented in SECURITY.md. Docker keeps 16,384 in one piece. */
const MAX_LINE_BYTES = 16_000;

/** Returns the line that is logged for an error. */
function lineOf(err: unknown): string {
  const lines: string[] = [];
  const output = { write: (line: string) => void lines.push(line) };
  pino({ ...LOG_OPTIONS, hooks: { streamWrite: toSafeLine } }, output).error({ err }, "failed");
  return lines.join("");
}

/** What libraries attach: cyclic, huge, and secret. */
function decorate<Failed extends Error>(error: Failed, more: object = {}): Failed {
  const client = { secretKey: "hunter2", statements: "SELECT hunter2 ".repeat(10_000), self: {} };
  client.self = client;
  return Object.assign(error, { client, request: client, detail: "Key (email)=(hunter2)", ...more });
}

describe("the log line of an error", () => {
  test("has its type, message, codes and stack, and nothing else that a library attached", () => {
    const error = decorate(new TypeError("went\nwrong"), { code: "23505", constraint: "users_key", table: "users" });
    const { err } = JSON.parse(lineOf(error));
    expect(err).toEqual({
      type: "TypeError",
      message: "went wrong",
      code: "23505",
      constraint: "users_key",
      table: "users",
      stack: expect.stringMatching(/^ +at .*log-lines\.test\.ts/),
    });
  });

  test("has the errors that it wraps, and no stack if it is an outage", () => {
    const refused = Object.assign(new Error("refused"), { code: "ECONNREFUSED", syscall: "connect" });
    const terminated = { code: "57P01", message: "terminated", user: 1 };
    const error = decorate(new Error("outer", { cause: refused }), { errors: [{ cause: terminated }] });
    const { err } = JSON.parse(lineOf(error));
    expect(err).toEqual({
      type: "Error",
      message: "outer",
      causes: [
        { type: "Error", message: "refused", code: "ECONNREFUSED", syscall: "connect" },
        { type: "Object", message: "" },
        { type: "Object", message: "terminated", code: "57P01" },
      ],
    });
  });

  const escaped = "\u202e".repeat(800);
  const wrapEscaped = (cause?: unknown) =>
    decorate(new Error(escaped, { cause }), { code: escaped, severity: escaped, constraint: escaped });
  const cyclic = decorate(new Error("a"));
  cyclic.cause = decorate(new Error("b", { cause: cyclic }));
  const unreadable = {
    get message() {
      throw new Error("hunter2");
    },
  };
  test.each<[string, unknown]>([
    ["causes itself", cyclic],
    ["has a message of 10 MB", decorate(new Error('\u001b"é'.repeat(2_500_000)))],
    [
      "has causes and fields of 1 MB",
      decorate(new Error("é\\".repeat(500_000), { cause: new Error('"é'.repeat(500_000)) }), {
        code: "é".repeat(1e6),
        kind: "x".repeat(1e6),
      }),
    ],
    [
      "has 100,000 errors",
      new AggregateError(
        Array.from({ length: 100_000 }, () => decorate(new Error("one"))),
        "all",
      ),
    ],
    [
      "has a deep stack",
      decorate(Object.assign(new Error("x"), { stack: `Error: x\n${"    at f (/é/x.ts:1:1)\n".repeat(1e5)}` })),
    ],
    ["has causes and codes of nothing but escapes", wrapEscaped(wrapEscaped(wrapEscaped(wrapEscaped())))],
    ["cannot be read", unreadable],
    ["is a string", "thrown"],
    ["is null", null],
  ])("is JSON of less than 16 kB, without what a library attached, if it %s", (_, error) => {
    const line = lineOf(error);
    expect(Buffer.byteLength(line)).toBeLessThanOrEqual(MAX_LINE_BYTES);
    expect(JSON.parse(line)).toMatchObject({ msg: "failed", err: { message: expect.any(String) } });
    expect(line).not.toMatch(/hunter2|u001b/);
  });

  test("has each error once, if one causes itself", () => {
    const { err } = JSON.parse(lineOf(cyclic));
    expect(err).toMatchObject({ message: "a", causes: [{ message: "b" }] });
    expect(err.causes).toHaveLength(1);
  });

  test("keeps the end of a long message, which may say what is wrong", () => {
    const { err } = JSON.parse(lineOf(new Error(`Invalid call\n${"code\n".repeat(1_000)}The table is missing`)));
    expect(err.message).toMatch(/^Invalid call code .* … .*The table is missing$/);
  });
});

test("a log line of other long texts is cut to less than 16 kB, and has no secret", () => {
  const long = `${"é".repeat(10_000)} guest@example.com`;
  const line = toSafeLine(
    `${JSON.stringify({ msg: "failed", reason: `guest@example.com ${long}`, facts: { long } })}\n`,
  );
  expect(Buffer.byteLength(line)).toBeLessThanOrEqual(MAX_LINE_BYTES);
  expect(JSON.parse(line)).toMatchObject({ msg: "failed", reason: expect.stringMatching(/^\[email\] é+$/) });
});

test("a log line with more cut texts than fit has its level, time, message, correlation id and the message of its error", () => {
  const longest = "\u202e".repeat(10_000);
  const known = { level: 50, time: 1, correlationId: "id", err: { message: "wrong" }, msg: "failed" };
  const line = (more: object) => toSafeLine(`${JSON.stringify({ ...known, ...more })}\n`);
  expect(line({ facts: Array(40).fill(longest) })).toBe(`${JSON.stringify(known)}\n`);
  const longestLine = line({
    time: longest,
    correlationId: longest,
    err: { message: longest },
    message: longest,
    msg: longest,
  });
  expect(Buffer.byteLength(longestLine)).toBeLessThanOrEqual(MAX_LINE_BYTES);
});

describe("a gateway", async () => {
  const { gateway, services, listingId, create } = await startHolderGateway();

  test("logs a failed statement with the constraint, without the row that broke it", async () => {
    await runSql(services.db.url, "ALTER TABLE forms ADD CONSTRAINT no_crowds CHECK (number_of_guests <> 77)");
    const answer = await create(uniqueStay(listingId, { numberOfGuests: 77 }));
    expect(errorCodeOf(answer)).toBe("INTERNAL_ERROR");
    const lines = await gateway.logLinesOf(answer);
    const { err } = lines.find(({ msg }) => msg === "request failed") as unknown as { err: { stack: string } };
    expect(err).toMatchObject({ code: "23514", constraint: "no_crowds", table: "forms", severity: "ERROR" });
    expect(err.stack).toMatch(/^ +at /);
    expect(JSON.stringify(lines)).not.toMatch(/Failing row|secretKey|processID/);
    expect(JSON.stringify(lines).length).toBeLessThan(5_000);
  });

  // The last one, because later requests may get a connection whose end is not known yet.
  test("logs a lost connection with its reason and code, and nothing else", async () => {
    await gateway.request({ path: "/readyz" });
    const lost = () => gateway.log.filter(({ msg }) => msg === "a database connection was lost");
    await runSql(
      services.db.url,
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'guest-forms'",
    );
    await expect.poll(lost).not.toEqual([]);
    for (const line of lost()) {
      expect(line).toEqual({
        level: 40,
        time: expect.any(Number),
        reason: "terminating connection due to administrator command",
        code: "57P01",
        msg: "a database connection was lost",
      });
    }
  });
});

test.each(["info", "fatal", "silent"])(
  "an error that nothing caught is one line of the log, without what a library attached, and ends the process, at LOG_LEVEL %s",
  async (level) => {
    const script = `
      import { createLog, logCrash } from ${JSON.stringify(join(packageRoot(), "dist/tools/gateway/runtime/log.js"))};
      logCrash(createLog("${level}"));
      setInterval(() => {}, 1_000);
      Promise.reject(Object.assign(new Error("on purpose"), { client: { secretKey: "hunter2" } }));`;
    const { stderr, code } = await spawnNode(["--input-type=module", "--eval", script]).done;
    expect(code).toBe(1);
    expect(JSON.parse(stderr)).toMatchObject({ level: 60, msg: "the process crashed", err: { message: "on purpose" } });
    expect(stderr).not.toContain("hunter2");
  },
);

const GUEST = "ada.o'hara+stay@guests.test";
const HOST = "host@people.test";
const UNKNOWN = generateKey("READ_WRITE");
const READ_ONLY = generateKey("READ_ONLY");

test.each([
  [`line\n${GUEST}`, "line\n[email]"],
  [`\u0001${HOST}`, "\u0001[email]"],
  [`"${HOST}"`, '"[email]"'],
  [`C:\\${HOST}`, "C:\\[email]"],
  ["postgres://app:secret@db.example.com/forms", "postgres://app:[email]/forms"],
  [`${"x".repeat(200)}@example.com`, expect.not.stringContaining("@")],
  [`${UNKNOWN}${UNKNOWN}`, expect.not.stringContaining(UNKNOWN.slice(7))],
  [`the key ${READ_ONLY}`, "the key grf_ro_…"],
  ...["a***@e***.com", "node_modules/@prisma/client", "grf_rw_AbCdE"].map((value): [string, string] => [value, value]),
])("a log line stays valid JSON after secrets are removed: %j", (value, expected) => {
  expect(JSON.parse(redactSecrets(JSON.stringify({ value })))).toEqual({ value: expected });
});

test("a log line has no character that a terminal acts on, and means the same", () => {
  const value = "\u001b[2J\u009b2J\u007f\u202e\u2028\ud800\u{e0041} 👩‍👩‍👧";
  const line = redactSecrets(`${JSON.stringify({ [value]: value })}\n`);
  expect(line.replaceAll("👩‍👩‍👧", "")).toMatch(/^[\x20-\x7e]+\n$/);
  expect(JSON.parse(line)).toEqual({ [value]: value });
});

test("removing secrets from a long line takes less than 2 s", () => {
  const began = performance.now();
  redactSecrets(`${"a.".repeat(100_000)}@`);
  redactSecrets(`grf_${"@a.".repeat(60_000)}`);
  expect(performance.now() - began).toBeLessThan(2_000);
});
