import { describe, expect, test } from "vitest";
import { DATABASE_CHECKS } from "../../gateway/doctor/checks.js";
import { registerMigratedSecrets } from "../../server/secrets/checks.js";
import { asUser } from "../support/factories.js";
import { NEW, OLD, openRotation } from "./rotation-core.js";

const { services, owner, sql, rotating, rotated, stay, create, update, reencrypt, statusOn } = await openRotation();

test("secrets.status counts an endpoint at the oldest secret that it needs, until the endpoint is renewed", async () => {
  const { id } = await asUser(services, owner.userId).webhooks.create({ url: "https://example.com/hooks" });
  await asUser(rotating, owner.userId).webhooks.rotateSecret({ id });
  const NEEDED = "SELECT needed_until FROM secret_checks ORDER BY registered_at LIMIT 1";
  await sql("UPDATE secret_checks SET needed_until = now()");
  expect((await statusOn()).secrets, "its current secret is of the new one, a previous one of the old").toMatchObject([
    { position: 1, webhooks: 0 },
    { position: 2, webhooks: 1 },
  ]);
  expect(await sql(NEEDED), "without an end").toEqual([{ needed_until: null }]);
  expect(await statusOn(rotated)).toMatchObject({ secrets: [{ webhooks: 0 }], unreadableWebhooks: 1 });
  expect(await reencrypt()).toMatchObject({ webhooks: 1 });
  expect((await statusOn()).secrets).toMatchObject([{ webhooks: 1 }, { webhooks: 0 }]);
  expect(await sql(NEEDED)).toEqual([{ needed_until: expect.any(Date) }]);
});

test("secrets.status counts what needs each secret, also one that is not listed, and never prints one", async () => {
  const first = await create();
  await create();
  await create(stay(), rotating);
  const until = first.form.checkOutDate;
  const [oldId, newId] = [services.keyring.ids[0], rotated.keyring.ids[0]];
  const status = await statusOn();
  expect(status).toEqual({
    secrets: [
      { id: newId, position: 1, addresses: 1, webhooks: 0, creates: 1, until },
      { id: oldId, position: 2, addresses: 2, webhooks: 0, creates: 2, until },
    ],
    unreadable: 0,
    unreadableWebhooks: 0,
  });
  expect(await statusOn(rotated)).toEqual({
    secrets: [
      { id: newId, position: 1, addresses: 1, webhooks: 0, creates: 1, until },
      { id: oldId, position: null, addresses: 0, webhooks: 0, creates: 2, until },
    ],
    unreadable: 2,
    unreadableWebhooks: 0,
  });
  for (const secret of [OLD, NEW]) {
    expect(secret).not.toContain(oldId);
    expect(JSON.stringify(status)).not.toContain(secret);
  }
});

describe("doctor", () => {
  const doctor = () => {
    const { settings } = rotated;
    return DATABASE_CHECKS.secrets({ settings, env: {}, processes: 1, worker: true }, rotated.db);
  };
  const lacks = (what: string) => ({
    status: "warning",
    message: expect.stringContaining(`APP_SECRETS lacks the secret ${services.keyring.ids[0]}, ${what}`),
  });
  const NOT_COUNTED = lacks("which may still be needed: run `guest-forms secrets reencrypt`");

  test("warns if the old secret was removed before what needs it was counted, or while addresses need it", async () => {
    await create();
    expect(await doctor()).toEqual(NOT_COUNTED);
    for (const on of [rotating, rotated]) {
      await statusOn(on);
      expect(await doctor()).toEqual(NOT_COUNTED);
    }
    await registerMigratedSecrets(rotated.db.pool, [NEW], { acceptNewest: true });
    expect(await doctor(), "given up with --accept-new-secret").toMatchObject({ status: "ok" });
  });

  test("warns while webhook endpoints need it, also if it was removed before they were counted, and not once they are renewed", async () => {
    await asUser(services, owner.userId).webhooks.create({ url: "https://example.com/hooks" });
    for (const on of [rotating, rotated]) {
      await statusOn(on);
      expect(await doctor()).toEqual(NOT_COUNTED);
    }
    await reencrypt();
    await statusOn(rotated);
    expect(await doctor()).toMatchObject({ status: "ok" });
  });

  test("warns until the end of the last stay whose create needs it", async () => {
    const changed = await create();
    await update(changed, { ...changed.body, guestEmail: "other@example.com" });
    await reencrypt();
    await statusOn();
    expect(await doctor()).toEqual(lacks(`which is needed until ${changed.form.checkOutDate}: list it`));
    await sql("UPDATE secret_checks SET needed_until = now() - interval '1 second'");
    expect(await doctor()).toMatchObject({ status: "ok" });
  });
});
