import { beforeEach, describe, expect, test } from "vitest";
import { createCaller } from "../../server/caller.js";
import { expectItems } from "../support/bulk.js";
import { openTestCore } from "../support/core.js";
import { catchErrorCode, catchRejectedFields, catchServiceError } from "../support/factories.js";
import { uniqueStay } from "../support/stays.js";

const { owner, operator, sql, makeOwner, makeUser, setRole, asUser, openProcess } = await openTestCore();

beforeEach(() => sql("TRUNCATE webhook_endpoints, webhook_deliveries"));

const URL = "https://example.com/hooks?tenant=7";
const mine = asUser(owner.userId).webhooks;
const actionsOf = async (subjectId: string) => (await operator.audit.trail({ subjectId })).map(({ action }) => action);

test("an endpoint is created with a secret that is shown once and stored encrypted", async () => {
  const { secret, ...endpoint } = await mine.create({ url: URL, events: ["form.created", "form.created"] });
  expect(endpoint).toEqual({
    id: expect.any(String),
    userId: owner.userId,
    url: URL,
    events: ["form.created"],
    listingIds: [],
    enabled: true,
    disabledAt: null,
    disabledReason: null,
    failingSince: null,
    createdAt: expect.stringMatching(/Z$/),
  });
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  expect(await mine.get({ id: endpoint.id })).toEqual(endpoint);
  expect((await mine.list({})).items).toEqual([endpoint]);
  const [stored] = await sql("SELECT * FROM webhook_endpoints");
  const bytes = Buffer.from(secret.slice(6), "base64");
  for (const text of [secret.slice(6), secret.slice(6, 20)])
    expect(stored.secret.toString("latin1")).not.toContain(text);
  expect(stored.secret.includes(bytes)).toBe(false);
  expect(await actionsOf(endpoint.id)).toEqual(["webhook.created"]);
});

test("an endpoint is changed, disabled, enabled and deleted, and each change is audited", async () => {
  const { secret: _, ...created } = await mine.create({ url: URL });
  const { id } = created;
  expect(await mine.update({ id })).toEqual(created);
  const listingIds = [owner.listingId];
  const changed = { ...created, url: "https://example.com/other", events: ["form.moved"], listingIds };
  expect(await mine.update({ id, url: changed.url, events: ["form.moved"], listingIds })).toEqual(changed);
  expect(await mine.update({ id, listingIds: [] })).toEqual({ ...changed, listingIds: [] });
  const disabled = await mine.disable({ id });
  expect(disabled).toMatchObject({ enabled: false, disabledReason: "manual", disabledAt: expect.any(String) });
  expect(await mine.disable({ id })).toEqual(disabled);
  expect(await catchRejectedFields(mine.test({ id }))).toEqual(["id"]);
  expect(await catchRejectedFields(mine.redeliver({ endpointId: id, failed: true }))).toEqual(["endpointId"]);
  expect(await mine.enable({ id })).toMatchObject({ enabled: true, disabledAt: null, disabledReason: null });
  await mine.test({ id });
  expect(await mine.delete({ id })).toMatchObject({ id });
  expect(await catchErrorCode(mine.get({ id }))).toBe("RESOURCE_NOT_FOUND");
  expect(await sql("SELECT FROM webhook_deliveries WHERE endpoint_id = $1", id)).toEqual([]);
  expect(await actionsOf(id)).toEqual(
    ["created", "updated", "updated", "disabled", "enabled", "deleted"].map((action) => `webhook.${action}`).reverse(),
  );
});

describe("scope", () => {
  test("a user sees and changes only its own endpoints, the operator any", async () => {
    const other = asUser((await makeOwner()).userId).webhooks;
    const { id } = await mine.create({ url: URL });
    const operators = await operator.webhooks.create({ url: URL });
    expect(operators.userId).toBeNull();
    for (const webhooks of [other, mine]) {
      const unseen = webhooks === mine ? operators.id : id;
      const calls = [
        () => webhooks.get({ id: unseen }),
        () => webhooks.update({ id: unseen, url: URL }),
        () => webhooks.enable({ id: unseen }),
        () => webhooks.disable({ id: unseen }),
        () => webhooks.rotateSecret({ id: unseen }),
        () => webhooks.test({ id: unseen }),
        () => webhooks.delete({ id: unseen }),
        () => webhooks.deliveries({ endpointId: unseen }),
        () => webhooks.redeliver({ endpointId: unseen, failed: true }),
      ];
      for (const call of calls) expect(await catchErrorCode(call())).toBe("RESOURCE_NOT_FOUND");
    }
    expect((await other.list({})).items).toEqual([]);
    expect((await operator.webhooks.list({})).items.map((endpoint) => endpoint.id)).toEqual([id, operators.id]);
    expect((await operator.webhooks.list({ userId: owner.userId })).items.map((endpoint) => endpoint.id)).toEqual([id]);
    expect(await operator.webhooks.disable({ id })).toMatchObject({ id, userId: owner.userId, enabled: false });
  });

  test("only the operator lists the deliveries of all endpoints, those in one state or of one form, newest first, in pages of every size", async () => {
    // In SQL, so that several have the same time and event, as those of one change.
    const { id: formId } = await owner.forms.create(uniqueStay(owner.listingId));
    await sql(
      `INSERT INTO webhook_deliveries
         (state, next_attempt_at, ended_at, correlation_id, endpoint_id, event_id, event_type, created_at, last_error, form_id)
       SELECT state::"DeliveryState", CASE WHEN state = 'retrying' THEN now() END,
         CASE WHEN state <> 'retrying' THEN now() END, gen_random_uuid(), gen_random_uuid(), event_id, 'form.created',
         now() - minute * interval '1 minute', state, CASE WHEN state <> 'sent' OR minute = 1 THEN $1::uuid END
       FROM (SELECT minute, gen_random_uuid() AS event_id FROM generate_series(1, 3) minute) event,
         unnest('{failed,failed,retrying,sent}'::text[]) state`,
      formId,
    );
    const wanted = (condition: string) =>
      sql(
        `SELECT event_id AS id, endpoint_id AS "endpointId" FROM webhook_deliveries n WHERE ${condition}
         ORDER BY created_at DESC, n.id DESC`,
      );
    type Input = Parameters<typeof operator.webhooks.deliveries>[0];
    const read = async (input: Input) => {
      const { items, nextCursor } = await operator.webhooks.deliveries(input);
      for (const { state, lastError } of items) expect(lastError).toBe(state);
      return { items: items.map(({ id, endpointId }) => ({ id, endpointId })), nextCursor };
    };
    await expectItems<Input>(read, [
      [{ state: "failed" }, await wanted("state = 'failed'")],
      [{ formId }, await wanted(`form_id = '${formId}'`)],
      [{ formId, state: "sent" }, await wanted(`form_id = '${formId}' AND state = 'sent'`)],
    ]);
    const both = { formId, endpointId: formId };
    expect(await catchRejectedFields(operator.webhooks.deliveries(both))).toEqual(["formId"]);
    expect(await catchRejectedFields(mine.deliveries({ state: "failed" }))).toEqual(["endpointId"]);
    for (const input of [{}, { state: "sent" }] as const)
      expect(await catchRejectedFields(operator.webhooks.deliveries(input))).toEqual(["state"]);
  });

  test("a user creates and lists none for others, and filters by no listing out of its scope", async () => {
    const other = await makeOwner();
    expect(await catchRejectedFields(mine.create({ url: URL, userId: other.userId }))).toEqual(["userId"]);
    expect(await catchRejectedFields(mine.create({ url: URL, userId: null }))).toEqual(["userId"]);
    expect(await catchRejectedFields(mine.list({ userId: other.userId }))).toEqual(["userId"]);
    const foreign = { url: URL, listingIds: [owner.listingId, other.listingId] };
    expect(await catchRejectedFields(mine.create(foreign))).toEqual(["listingIds"]);
    const forUser = operator.webhooks.create({ ...foreign, userId: owner.userId });
    expect(await catchRejectedFields(forUser)).toEqual(["listingIds"]);
    await operator.webhooks.create(foreign);
    const { id } = await mine.create({ url: URL, userId: owner.userId });
    expect(await catchRejectedFields(mine.update({ id, listingIds: [other.listingId] }))).toEqual(["listingIds"]);
    await setRole(other.listingId, owner.userId, "READER");
    expect(await catchRejectedFields(mine.create(foreign)), "a reader hears of nothing").toEqual(["listingIds"]);
    expect(await catchRejectedFields(mine.update({ id, listingIds: [other.listingId] }))).toEqual(["listingIds"]);
    await setRole(other.listingId, owner.userId, "WRITER");
    await mine.create(foreign);
    await mine.update({ id, listingIds: [other.listingId] });
    const unknown = { url: URL, userId: "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa" };
    expect(await catchRejectedFields(operator.webhooks.create(unknown))).toEqual(["userId"]);
  });
});

test.each([
  [{}, "url"],
  [{ url: 7 }, "url"],
  [{ url: "" }, "url"],
  [{ url: "example.com" }, "url"],
  [{ url: "http://example.com" }, "url"],
  [{ url: "ftp://example.com" }, "url"],
  [{ url: "https://user:password@example.com" }, "url"],
  [{ url: "https://93.184.216.34/" }, "url"],
  [{ url: "https://[2606:4700::1111]/" }, "url"],
  [{ url: "https://0x7f.1/" }, "url"],
  [{ url: `https://example.com/${"x".repeat(2000)}` }, "url"],
  [{ url: URL, events: ["form.deleted"] }, "events.0"],
  [{ url: URL, events: "form.created" }, "events"],
  [{ url: URL, listingIds: ["x"] }, "listingIds.0"],
  [{ url: URL, secret: "whsec_mine" }, "secret"],
])("an endpoint %j is rejected, naming %s", async (input, field) => {
  expect(await catchRejectedFields(mine.create(input as { url: string }))).toEqual([field]);
  const { id } = await mine.create({ url: URL });
  if (Object.keys(input).length > 0)
    expect(await catchRejectedFields(mine.update({ id, ...(input as object) }))).toEqual([field]);
  expect(await sql("SELECT FROM webhook_endpoints")).toHaveLength(1);
});

test("an owner has at most 20 endpoints, also if they are created at once", async () => {
  const create = () =>
    mine.create({ url: URL }).then(
      () => "created",
      () => "rejected",
    );
  const outcomes = await Promise.all(Array.from({ length: 25 }, create));
  expect(outcomes.filter((outcome) => outcome === "created")).toHaveLength(20);
  const { errors } = await catchServiceError(mine.create({ url: URL }));
  expect(errors).toEqual([{ field: "url", issue: "an owner has at most 20 endpoints: delete one" }]);
  await operator.webhooks.create({ url: URL });
  await asUser((await makeOwner()).userId).webhooks.create({ url: URL });
});

test("a user that is erased loses its endpoints and their deliveries, and can create no other", async () => {
  const { id: userId } = await makeUser();
  const { webhooks } = asUser(userId);
  const endpoint = await webhooks.create({ url: URL });
  await webhooks.test({ id: endpoint.id });
  await operator.people.eraseUser({ id: userId });
  expect(await catchErrorCode(operator.webhooks.get({ id: endpoint.id }))).toBe("RESOURCE_NOT_FOUND");
  expect(await catchRejectedFields(webhooks.create({ url: URL }))).toEqual(["userId"]);
});

test("a URL is stored as it is requested, and written in another way it is the same endpoint", async () => {
  const { id, url } = await mine.create({ url: " HTTPS://Hooks.Example:443/a b/../é " });
  expect(url).toBe("https://hooks.example/%C3%A9");
  await sql("UPDATE webhook_endpoints SET failing_since = now() WHERE id = $1", id);
  const same = await mine.update({ id, url: "https://hooks.EXAMPLE/é" });
  expect(same).toMatchObject({ url, failingSince: expect.any(String) });
  expect(await mine.update({ id, url: "https://hooks.example/" })).toMatchObject({ failingSince: null });
});

test("with WEBHOOK_ALLOW_PRIVATE_ADDRESSES, http and addresses are accepted", async () => {
  const process = await openProcess({ WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" });
  const { webhooks } = createCaller(process, { kind: "operator" });
  for (const url of ["http://localhost:3000/", "https://127.0.0.1/", "http://[::1]:8080/"])
    expect((await webhooks.create({ url })).url).toBe(url);
  expect(await catchRejectedFields(webhooks.create({ url: "file:///etc/passwd" }))).toEqual(["url"]);
});
