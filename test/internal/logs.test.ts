import { expect, test } from "vitest";
import { redactSecrets } from "../../gateway/runtime/log.js";
import { generateKey } from "../../server/keys/authenticator.js";

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
