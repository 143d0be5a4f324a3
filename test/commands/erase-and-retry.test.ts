import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { expireEmails } from "../../server/emails/expiry.js";
import { ActivityCounts } from "../../server/outbox/activity.js";
import { openTestCore } from "../support/core.js";
import { asOperator, withSecrets } from "../support/factories.js";
import { commandEnv } from "../support/mail-server.js";
import { restoreAddresses } from "../support/personal-data.js";
import { runCli } from "../support/processes.js";
import { commandsWith, runInProcess } from "../support/run-in-process.js";
import { makeTempFolder } from "../support/run-tool.js";

const { services, owner, sql } = await openTestCore();
const env = commandEnv(services);
const { text, json, failure } = commandsWith(env);
/** A process whose secret the commands do not know. */
const foreign = withSecrets(services, "another-secret-of-at-least-32-characters");

beforeEach(() => sql("TRUNCATE forms, erasures CASCADE"));

const writeRecords = async (...lines: string[]) => {
  const file = join(await makeTempFolder("erasures"), "erasures.ndjson");
  await writeFile(file, lines.join("\n"));
  return file;
};

describe("people erase", () => {
  const erase = ["people", "erase", "guest@example.com", "--yes"];

  test("prints the counts", async () => {
    await owner.create(owner.body);
    expect(await json("people", "erase", "Guest@example.com", "--yes")).toEqual({
      forms: 1,
      emails: 1,
      unreadable: 0,
      erasedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      addressHash: expect.stringMatching(/^[\w-]{55}$/),
    });
    expect(await text(...erase)).toMatch(/^forms: +0$/m);
    const wrong = [2, "EMAIL: must be an email address"];
    expect(await failure("people", "erase", "unmistakable@@")).toEqual(wrong);
  });

  test("exits with 1 and says what to do if addresses could not be checked, unless that is allowed; prints the record in any case", {
    timeout: 180_000,
  }, async () => {
    await owner.create(owner.body, undefined, foreign);
    const one = await runCli([...erase, "--json"], { env });
    expect(one.code).toBe(1);
    expect(one.stderr).toBe(
      "error: 1 address could not be checked: add the secret that was used when it was stored to APP_SECRETS, and run " +
        "this again. If that secret is lost, use --allow-unreadable.\n",
    );
    expect(JSON.parse(one.stdout)).toMatchObject({ unreadable: 1, addressHash: expect.any(String) });
    expect(await json(...erase, "--allow-unreadable")).toMatchObject({ unreadable: 1 });
  });
});

describe("people erasures and people reapply", () => {
  test("erase --json and erasures print records that reapply accepts, one per line", async () => {
    const { form } = await owner.create(owner.body);
    const erased = await json("people", "erase", "guest@example.com", "--yes");
    const record = { erasedAt: erased.erasedAt, addressHash: erased.addressHash };
    const listed = await text("people", "erasures", "--since", erased.erasedAt);
    expect(listed).toBe(`${JSON.stringify(record)}\n`);
    expect(await json("people", "erasures")).toEqual([record]);
    expect((await text("people", "erasures", "--since", "9999-01-01T00:00:00Z")).trim()).toBe("");

    await restoreAddresses(services, { [form.id]: "guest@example.com" });
    const commandError = '{"error":{"code":"COMMAND_FAILED","message":"…"}}';
    const file = await writeRecords(JSON.stringify(erased), commandError, listed, "");
    const counts = { forms: 1, emails: 1, unreadable: 0, applied: 1, known: 0, unknownSecret: 0 };
    expect(await json("people", "reapply", file)).toEqual(counts);
    expect(await text("people", "reapply", file)).toMatch(/^known: +1$/m);
  });

  test("reapply rejects a malformed file whole, and names each line and field", async () => {
    const { form } = await owner.create(owner.body);
    const record = await json("people", "erase", "guest@example.com", "--yes");
    await restoreAddresses(services, { [form.id]: "guest@example.com" });
    const file = await writeRecords(JSON.stringify(record), "", '{"addressHash":1}', '{"erasedAt":', "[]");
    const { code, message } = await runInProcess(["people", "reapply", file], env);
    expect([code, ...message.split("\n")]).toEqual([
      1,
      "line 3: erasedAt: is required",
      "line 3: addressHash: must be a string",
      "line 4: row: must be one JSON object",
      "line 5: row: must be one JSON object",
      "Nothing was erased.",
    ]);
    const missing = [1, "Cannot read /nothing/here: there is no such file."];
    expect(await failure("people", "reapply", "/nothing/here")).toEqual(missing);
    expect(await text("people", "erasures")).toBe("\n");
    expect(await sql("SELECT FROM forms WHERE guest_email IS NOT NULL")).toHaveLength(1);
  });

  test("reapply exits with 1 and says what to do if it could not check an address or a record, unless that is allowed", {
    timeout: 180_000,
  }, async () => {
    const record = await asOperator(foreign).people.erase({ email: "guest@example.com" });
    await sql("TRUNCATE erasures");
    await owner.create(owner.body, undefined, foreign);
    const reapply = ["people", "reapply", await writeRecords(JSON.stringify(record))];
    const { code, stdout, stderr } = await runCli([...reapply, "--json"], { env });
    const counts = { unreadable: 1, unknownSecret: 1 };
    expect([code, JSON.parse(stdout)]).toEqual([1, expect.objectContaining(counts)]);
    expect(stderr).toMatch(
      /^error: 1 address could not be checked and 1 erasure could not be repeated: add the secret that was used when they were stored to APP_SECRETS, and run this again\./,
    );
    expect(await json(...reapply, "--allow-unreadable")).toMatchObject(counts);
  });
});

describe("emails retry", () => {
  test("prints the email, which emails list shows before and after", async () => {
    const { form } = await owner.create(owner.body);
    const [listed] = (await json("emails", "list")).items;
    await sql("UPDATE emails SET state = 'failed', next_attempt_at = NULL, ended_at = now()");
    const retried = await json("emails", "retry", listed.id);
    expect(retried).toMatchObject({ id: listed.id, formId: form.id, state: "waiting" });
    expect(await text("emails", "retry", listed.id)).toMatch(/^state: +waiting$/m);
    expect(await text("emails", "list")).toContain(form.id);
    const missing = [1, "There is no unsent email with this id."];
    expect(await failure("emails", "retry", "999999")).toEqual(missing);
  });

  test("--failed retries all failed ones and prints their number; either it or an id is required", async () => {
    await sql("UPDATE emails SET state = 'failed', next_attempt_at = NULL, ended_at = now()");
    const [{ count }] = await sql("SELECT count(*)::int AS count FROM emails");
    expect(await json("emails", "retry", "--failed")).toEqual({ retried: count });
    expect(await text("emails", "retry", "--failed")).toBe("Emails that are retried: 0.\n");
    for (const args of [[], ["42", "--failed"]])
      expect(await failure("emails", "retry", ...args)).toEqual([2, "Give either ID or --failed."]);
  });

  test("exits with 2 and says why if the stay is over, and emails list shows it as expired", async () => {
    const { form } = await owner.create(owner.body);
    await sql("UPDATE forms SET check_out_date = now() - interval '1 ms'");
    await expireEmails({ ...services, counts: new ActivityCounts() }, { info() {} });
    const listed = await text("emails", "list");
    expect(listed).toMatch(new RegExp(`^(\\d+) +${form.id} +expired +0 `, "m"));
    const [id = ""] = /^\d+/m.exec(listed) ?? [];
    const why = "ID: the stay is over, the form is past SENT, or another invitation followed: this email is not sent";
    expect(await failure("emails", "retry", id)).toEqual([2, why]);
  });
});
