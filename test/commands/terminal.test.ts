import { readdirSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { escapeJson, printable, printableLine, toJson } from "../../gateway/runtime/terminal.js";
import { packageRoot } from "../../prisma/package-root.js";
import { replaceHidden } from "../../server/hidden-characters.js";
import { openTestCore } from "../support/core.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { commandEnv, openScriptedSmtpServer } from "../support/mail-server.js";
import { runCli, spawnNode } from "../support/processes.js";
import { commandsWith } from "../support/run-in-process.js";
import { makeTempFolder } from "../support/run-tool.js";
import { toNdjson } from "./importer.js";

/** As rows may have it that were stored before texts were checked. */
const HOSTILE = "\u001b]0;pwned\u0007\u001b[2J\u009b2J\u202ecod\u2028\nerror: \u{e0041}👩‍👩‍👧";
const SHOWN = String.raw`\u{1b}]0;pwned\u{7}\u{1b}[2J\u{9b}2J\u{202e}cod error: \u{e0041}👩‍👩‍👧`;

const hiddenIn = (text: string) => {
  const found: string[] = [];
  replaceHidden(text, (character) => (character === "\n" ? "" : String(found.push(character))));
  return found;
};

test("hidden characters are shown by their code, and emoji, Persian and line breaks stay", () => {
  expect(printable("a\tb\n\u001b\u007f\u009b\u2028\ud800 خانه‌ی 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️")).toBe(
    "a\\u{9}b\n\\u{1b}\\u{7f}\\u{9b}\\u{2028}\\u{d800} خانه‌ی 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️",
  );
  expect(printableLine("a\r\n b\u0085")).toBe("a b\\u{85}");
});

test("JSON has escapes for them, and means the same", () => {
  const value = { [HOSTILE]: HOSTILE, lone: "\ud800" };
  expect(hiddenIn(toJson(value))).toEqual([]);
  expect(JSON.parse(toJson(value))).toEqual(value);
  expect(escapeJson('"\u{e0041}"\n')).toBe('"\\udb40\\udc41"\n');
});

const { services, owner, operator, sql, makeKey } = await openTestCore();
const form = await owner.addForm();
const key = await makeKey(owner.userId);
const endpoint = await operator.webhooks.create({ userId: owner.userId, url: "https://example.com/hooks" });
await operator.webhooks.test({ id: endpoint.id });
const [entry] = await operator.audit.trail({ subjectId: form.id });
await sql("UPDATE users SET name = $1, external_id = $1", HOSTILE);
await sql("UPDATE listings SET title = $1, city = $1, external_id = $1", HOSTILE);
await sql("UPDATE api_keys SET label = $1", HOSTILE);
await sql("UPDATE webhook_endpoints SET url = $1", `https://example.com/${HOSTILE}`);
await sql("UPDATE webhook_deliveries SET last_error = $1, response_body = $1", HOSTILE);
await sql("UPDATE audit_entries SET actor_name = $1", HOSTILE);
const env = commandEnv(services);
const { text, json } = commandsWith(env);

test.each([
  ["users list", []],
  ["users show", [owner.userId]],
  ["listings list", []],
  ["listings show", [owner.listingId]],
  ["members list", ["--user", owner.userId]],
  ["keys list", []],
  ["keys show", [key.id]],
  ["webhooks list", []],
  ["webhooks show", [endpoint.id]],
  ["webhooks deliveries", [endpoint.id]],
  ["forms trail", [form.id]],
  ["trace", [entry?.correlationId ?? ""]],
])("%s shows hidden characters, and prints none, also not with --json", async (command, given) => {
  const args = [...command.split(" "), ...given];
  const printed = await text(...args);
  expect(printed).toContain(SHOWN);
  expect(printed).not.toMatch(/^error: /m);
  expect(hiddenIn(printed)).toEqual([]);
  expect(JSON.stringify(await json(...args))).toContain(JSON.stringify(HOSTILE).slice(1, -1));
  expect(hiddenIn(await text(...args, "--json"))).toEqual([]);
});

describe("an error", () => {
  test("about a property of a file shows its name on one line", async () => {
    const file = join(await makeTempFolder("hostile"), "rows.ndjson");

    await writeFile(file, toNdjson({ type: "user", externalId: "a", email: "a@example.com", [HOSTILE]: 1 }));
    const { stdout, stderr, code } = await runCli(["import", file, "--json"], { env });
    expect(code).toBe(1);
    expect(stderr.split("\n").slice(0, -1)).toEqual([
      `error: line 1: ${SHOWN}: is not a known property`,
      `error: Nothing was imported. Errors in ${file}: 1.`,
    ]);
    expect(hiddenIn(stdout)).toEqual([]);
    expect(JSON.parse(stdout).error.errors).toEqual([{ line: 1, field: HOSTILE, issue: "is not a known property" }]);
  });

  test("of a mail server, and a stored time zone, are shown by doctor on one line", async () => {
    const SMTP_URL = await openScriptedSmtpServer((socket) => void socket.end(`554 ${HOSTILE.replace("\n", "")}\r\n`));
    const mail = { SMTP_URL, SMTP_FROM: "a@example.com", FORM_URL_TEMPLATE: "https://example.com/{publicId}" };
    await sql("UPDATE listings SET timezone = $1", HOSTILE);
    const { stdout, stderr } = await runCli(["doctor"], { env: { ...env, ...mail } });
    expect(stdout).toMatch(/^warning +time zones +.*cod error: /m);
    expect(stdout).toMatch(/^failed +mail server +The mail server at \S+ cannot be used: .*\\u\{1b\}\[2J/m);
    expect(hiddenIn(stdout + stderr)).toEqual([]);
  });
});

describeWithBinary("script:bsdutils", "an export", (script) => {
  test("is printable on a terminal, and exact in a pipe", async () => {
    const run = (prefix: string[]) =>
      spawnNode([join(packageRoot(), "dist/main.js"), "export"], { env, commandPrefix: prefix }).done;
    const exact = await run([]);
    expect(exact.stdout).toContain(HOSTILE);
    const shell = ["sh", "-c", `exec ${script} -qec "$0 $1 export" /dev/null`];
    const { stdout } = await run(shell);
    expect(stdout).toContain(String.raw`\u{1b}]0;pwned\u{7}\u{1b}[2J`);
    expect(hiddenIn(stdout.replaceAll("\r\n", "\n"))).toEqual([]);
  });
});

test("only these files of the service write to the terminal themselves", () => {
  const root = packageRoot();
  const files = ["server", "gateway", "prisma"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .map((path) => join(folder, path))
      .filter((path) => path.endsWith(".ts")),
  );
  const writers = files.filter((path) => /std(out|err)\.write\(/.test(readFileSync(join(root, path), "utf8")));
  // The bar of the progress has numbers only; main.ts waits for what was written.
  expect(writers.sort()).toEqual(["gateway/cli/progress.ts", "gateway/main.ts"]);
});
