import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { expireNotifications } from "../../server/notifications/expiry.js";
import { seal } from "../../server/secrets.js";
import { asOperator, openTestServices, withSecrets } from "../support/factories.js";
import { type ListingOwner, makeListingOwner } from "../support/listing-owner.js";
import { commandEnv } from "../support/mail-server.js";
import { runCli } from "../support/processes.js";
import { runInProcess } from "../support/run-in-process.js";
import { makeTempFolder } from "../support/run-tool.js";

let services: Services;
let owner: ListingOwner;

beforeAll(async () => {
  services = await openTestServices();
  owner = await makeListingOwner(services);
});

beforeEach(() => services.db.pool.query("TRUNCATE forms CASCADE"));

const run = (...args: string[]) => runInProcess(args, commandEnv(services));

describe("people erase", () => {
  test("prints the counts", async () => {
    await owner.create(owner.body);
    const erased = await run("people", "erase", "Guest@example.com", "--json");
    expect(JSON.parse(erased.stdout)).toEqual({
      forms: 1,
      notifications: 1,
      unreadable: 0,
      erasedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      addressHash: expect.stringMatching(/^[\w-]{55}$/),
    });
    const again = await run("people", "erase", "guest@example.com");
    expect(again).toMatchObject({ code: 0, stdout: expect.stringMatching(/^forms: +0$/m) });
  });

  test("exits with 1 and says what to do if addresses could not be checked, unless that is allowed; prints the record in any case", {
    timeout: 180_000,
  }, async () => {
    await storeUnreadable(1);
    const args = ["people", "erase", "guest@example.com", "--json"];
    const one = await runCli(args, { env: commandEnv(services) });
    expect(one.code).toBe(1);
    expect(one.stderr).toBe(
      "error: 1 address could not be checked: add the secret that was used when it was stored to APP_SECRETS, and run " +
        "this again. If that secret is lost, use --allow-unreadable.\n",
    );
    expect(JSON.parse(one.stdout)).toMatchObject({ unreadable: 1, addressHash: expect.any(String) });
    await storeUnreadable(1);
    const two = await runCli(args.slice(0, 3), { env: commandEnv(services) });
    expect(two).toMatchObject({ code: 1, stdout: expect.stringMatching(/^unreadable: +2$/m) });
    expect(two.stderr).toMatch(
      /^error: 2 addresses could not be checked: add the secret that was used when they were stored to APP_SECRETS, and run this again\./,
    );
    const allowed = await runCli([...args, "--allow-unreadable"], { env: commandEnv(services) });
    expect(allowed).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(allowed.stdout)).toMatchObject({ unreadable: 2 });
  });

  test("exits with 2 for wrong usage, and does not print the address", async () => {
    const wrong = await run("people", "erase", "unmistakable@@");
    expect(wrong).toEqual({ code: 2, stdout: "", message: "EMAIL: must be an email address" });
    expect((await run("people", "erase")).code).toBe(2);
  });
});

/** Creates forms whose addresses no listed secret decrypts. */
async function storeUnreadable(count: number): Promise<void> {
  const other = withSecrets(services, "another-secret-of-at-least-32-characters");
  for (let n = 0; n < count; n++) {
    await owner.create({ ...owner.body, numberOfGuests: ++guests }, undefined, other);
  }
}

let guests = 10;

describe("people erasures and people reapply", () => {
  const write = async (...lines: string[]) => {
    const file = join(await makeTempFolder("erasures"), "erasures.ndjson");
    await writeFile(file, lines.join("\n"));
    return file;
  };

  test("erase --json and erasures print records that reapply accepts, one per line", async () => {
    const { form } = await owner.create(owner.body);
    const erased = (await run("people", "erase", "guest@example.com", "--json")).stdout;
    const { erasedAt, addressHash } = JSON.parse(erased);
    const listed = await run("people", "erasures", "--since", erasedAt);
    expect(listed).toEqual({
      code: 0,
      message: "",
      stdout: `${JSON.stringify({ erasedAt, addressHash })}\n`,
    });
    expect(JSON.parse((await run("people", "erasures", "--json")).stdout)).toContainEqual({
      erasedAt,
      addressHash,
    });
    expect((await run("people", "erasures", "--since", "9999-01-01T00:00:00Z")).stdout.trim()).toBe("");

    await restoreAddress(form.id);
    const file = await write(erased, '{"error":{"code":"COMMAND_FAILED","message":"…"}}', listed.stdout, "");
    const counts = { forms: 1, notifications: 1, unreadable: 0, applied: 1, known: 0, unknownSecret: 0 };
    expect(JSON.parse((await run("people", "reapply", file, "--json")).stdout)).toEqual(counts);
    expect((await run("people", "reapply", file)).stdout).toMatch(/^known: +1$/m);
  });

  /** Makes a new form's row that of an erased form, and forgets its erasure, as if an older backup had been restored. */
  async function restoreAddress(id: string): Promise<void> {
    const sealed = seal(services.keyring.email, "guest@example.com", id);
    await services.db.pool.query("UPDATE forms SET guest_email = $2 WHERE id = $1", [id, sealed]);
    await services.db.pool.query("INSERT INTO notifications (kind, form_id) VALUES ('form.created', $1)", [
      id,
    ]);
    await services.db.pool.query("TRUNCATE erasures");
  }

  test("reapply rejects a malformed file whole, and names each line and field", async () => {
    const { form } = await owner.create(owner.body);
    const { stdout } = await run("people", "erase", "guest@example.com", "--json");
    await restoreAddress(form.id);
    const { addressHash, erasedAt } = JSON.parse(stdout);
    const file = await write(
      stdout.trim(),
      "",
      '{"addressHash":1}',
      JSON.stringify({ erasedAt: "yesterday", addressHash: `${addressHash.slice(0, -1)}` }),
      '{"erasedAt":',
      JSON.stringify({ erasedAt, addressHash: `B${addressHash.slice(1)}` }),
      "[]",
    );
    const { code, message, stdout: printed } = await run("people", "reapply", file);
    expect([code, printed]).toEqual([2, ""]);
    expect(message.split("; ")).toEqual([
      "FILE: line 3: erasedAt is required",
      "FILE: line 3: addressHash must be a string",
      "FILE: line 4: erasedAt must be an ISO 8601 instant with seconds and an offset, such as 2026-07-01T15:00:00Z",
      "FILE: line 4: addressHash must be the `addressHash` of an erasure",
      "FILE: line 5 must be a JSON object",
      "FILE: line 6: addressHash must be the `addressHash` of an erasure",
      "FILE: line 7 must be a JSON object",
    ]);
    expect(await run("people", "erasures")).toMatchObject({ stdout: "\n" });
    const { rows } = await services.db.pool.query("SELECT FROM forms WHERE guest_email IS NOT NULL");
    expect(rows).toHaveLength(1);
  });

  test("reapply exits with 1 and says what to do if it could not check an address or a record, unless that is allowed", {
    timeout: 180_000,
  }, async () => {
    const other = withSecrets(services, "another-secret-of-at-least-32-characters");
    const record = await asOperator(other).people.erase({ email: "guest@example.com" });
    await services.db.pool.query("TRUNCATE erasures");
    await storeUnreadable(1);
    const args = ["people", "reapply", await write(JSON.stringify(record)), "--json"];
    const { code, stdout, stderr } = await runCli(args, { env: commandEnv(services) });
    expect([code, JSON.parse(stdout)]).toEqual([
      1,
      expect.objectContaining({ unreadable: 1, unknownSecret: 1 }),
    ]);
    expect(stderr).toMatch(
      /^error: 1 address could not be checked and 1 erasure could not be repeated: add the secret that was used when they were stored to APP_SECRETS, and run this again\./,
    );
    expect(await runCli([...args, "--allow-unreadable"], { env: commandEnv(services) })).toMatchObject({
      code: 0,
      stderr: "",
    });
  });

  test("reapply of a file that does not exist names it, and a malformed instant is a usage error", async () => {
    expect(await run("people", "reapply", "/nothing/here")).toMatchObject({
      code: 1,
      message: "FILE: cannot be read (ENOENT): /nothing/here",
    });
    expect(await run("people", "erasures", "--since", "today")).toMatchObject({
      code: 2,
      message: expect.stringMatching(/^--since: must be an ISO 8601 instant/),
    });
  });
});

describe("notifications retry", () => {
  test("prints the notification, which notifications lists before and after", async () => {
    const { form } = await owner.create(owner.body);
    const [listed] = JSON.parse((await run("notifications", "--json")).stdout).items;
    await services.db.pool.query("UPDATE notifications SET state = 'failed'");
    const retried = await run("notifications", "retry", listed.id, "--json");
    expect(JSON.parse(retried.stdout)).toMatchObject({ id: listed.id, formId: form.id, state: "waiting" });
    expect((await run("notifications", "retry", listed.id)).stdout).toMatch(/^state: +waiting$/m);
    expect((await run("notifications")).stdout).toContain(form.id);
  });

  test("exits with 2 and says why if the stay is over, and notifications lists it as expired", async () => {
    const { form } = await owner.create(owner.body);
    await services.db.pool.query("UPDATE forms SET check_out_date = now()");
    await expireNotifications(services, { info() {} });
    const listed = await run("notifications");
    expect(listed.stdout).toMatch(new RegExp(`^(\\d+) +${form.id} +expired +0 `, "m"));
    const [id = ""] = /^\d+/m.exec(listed.stdout) ?? [];
    expect(await run("notifications", "retry", id)).toEqual({
      code: 2,
      stdout: "",
      message: "ID: the stay is over or the form is past SENT: its email is not sent",
    });
  });

  test("exits with 1 if there is no such notification", async () => {
    expect(await run("notifications", "retry", "999999", "--json")).toMatchObject({
      code: 1,
      message: "There is no unsent notification with this id.",
    });
  });
});
