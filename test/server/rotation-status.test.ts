import { beforeEach, describe, expect, test } from "vitest";
import { DATABASE_CHECKS } from "../../gateway/doctor/checks.js";
import type { Caller } from "../../server/caller.js";
import type { FormBody, FormV1 } from "../../server/forms/schema.js";
import { registerMigratedSecrets } from "../../server/secrets/checks.js";
import { openTestCore } from "../support/core.js";
import { asOperator, asUser } from "../support/factories.js";
import { fixedStay } from "../support/stays.js";

const [OLD, NEW] = ["old", "new"].map((name) => `${name}-secret-of-at-least-32-characters`) as [string, string];
const ADDRESS = "guest@example.com";

/** Processes on one database, after each step of a rotation. */
const { services, owner, sql, openProcess } = await openTestCore({ APP_SECRETS: OLD });
await openProcess({ APP_SECRETS: `${OLD},${NEW}` });
const rotating = await openProcess({ APP_SECRETS: `${NEW},${OLD}` });
const rotated = await openProcess({ APP_SECRETS: NEW });

beforeEach(async () => {
  await sql("TRUNCATE forms, erasures, webhook_endpoints CASCADE");
  await sql("UPDATE secret_checks SET needed_until = NULL");
});

let guests = 0;
const stay = (guestEmail: string | null = ADDRESS): FormBody =>
  fixedStay(owner.listingId, { guestEmail, numberOfGuests: ++guests });

interface Create {
  body: FormBody;
  form: FormV1;
}

async function create(body = stay(), on = services): Promise<Create> {
  return { body, form: (await owner.create(body, `key of ${body.numberOfGuests}`, on)).form };
}

const update = ({ form: { id } }: Create, body: FormBody) => owner.forms.update({ id, ...body });

/** Runs `reencrypt` to the end. Returns its counts. */
async function reencrypt(on = rotating) {
  const { secrets } = asOperator(on);
  const counts = { addresses: 0, creates: 0, webhooks: 0 };
  for (let after: string | null | undefined; after !== null; ) {
    const batch: Awaited<ReturnType<Caller["secrets"]["reencrypt"]>> = await secrets.reencrypt({ after });
    counts.addresses += batch.addresses;
    counts.creates += batch.creates;
    counts.webhooks += batch.webhooks;
    after = batch.next;
  }
  return counts;
}

const statusOn = (on = rotating) => asOperator(on).secrets.status({});

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
