import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { openTestServices } from "../support/factories.js";
import { type ListingOwner, makeListingOwner } from "../support/listing-owner.js";
import { commandEnv } from "../support/mail-server.js";
import { runInProcess } from "../support/run-in-process.js";

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
    expect(JSON.parse(erased.stdout)).toEqual({ forms: 1, notifications: 1, unreadable: 0 });
    const again = await run("people", "erase", "guest@example.com");
    expect(again).toMatchObject({ code: 0, stdout: expect.stringMatching(/^forms: +0$/m) });
  });

  test("exits with 2 for wrong usage, and does not print the address", async () => {
    const wrong = await run("people", "erase", "unmistakable@@");
    expect(wrong).toEqual({ code: 2, stdout: "", message: "EMAIL: must be an email address" });
    expect((await run("people", "erase")).code).toBe(2);
  });
});

describe("notifications retry", () => {
  test("prints the notification, which notifications lists before and after", async () => {
    const { form } = await owner.create(owner.body);
    const [listed] = JSON.parse((await run("notifications", "--json")).stdout);
    await services.db.pool.query("UPDATE notifications SET state = 'failed'");
    const retried = await run("notifications", "retry", listed.id, "--json");
    expect(JSON.parse(retried.stdout)).toMatchObject({ id: listed.id, formId: form.id, state: "waiting" });
    expect((await run("notifications", "retry", listed.id)).stdout).toMatch(/^state: +waiting$/m);
    expect((await run("notifications")).stdout).toContain(form.id);
  });

  test("exits with 1 if there is no such notification", async () => {
    expect(await run("notifications", "retry", "999999", "--json")).toMatchObject({
      code: 1,
      message: "There is no waiting or failed notification with this id.",
    });
  });
});
