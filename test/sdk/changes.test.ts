import pg from "pg";
import { expect, test, vi } from "vitest";
import type { FormChanges } from "../../sdk/src/index.js";
import { respondWith } from "./fault-proxy.js";
import { useGateway } from "./setup.js";

const context = await useGateway();
const services = await context.gateway.services();

const createOne = () => context.client().forms.create(context.uniqueStay());

async function idsOf(changes: FormChanges): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of changes) ids.push(id);
  return ids;
}

/** Sets when a form was changed, in seconds from now. */
async function setChanged(
  id: string,
  seconds: number,
  on: pg.ClientBase | pg.Pool = services.db.pool,
): Promise<string> {
  const { rows } = await on.query<{ at: Date }>(
    "UPDATE forms SET updated_at = now() + make_interval(secs => $2) WHERE id = $1 RETURNING updated_at AS at",
    [id, seconds],
  );
  return rows[0]?.at.toISOString() ?? "";
}

const minus = (instant: string, milliseconds: number) => new Date(Date.parse(instant) - milliseconds).toISOString();

test("the mark is the latest change minus a minute, once all forms were read; the next read begins there", async () => {
  const forms = [await createOne(), await createOne(), await createOne()];
  const times = [];
  for (const [index, { id }] of forms.entries()) times.push(await setChanged(id, [-200, 0, -100][index] ?? 0));
  const { forms: client } = context.client();
  // The time that a read takes is subtracted too: changes-during-read.test.ts.
  vi.useFakeTimers({ toFake: ["Date"] });
  const all = client.changesSince(null);
  expect(all.mark).toBeUndefined();
  const ids = await idsOf(all);
  expect(ids.slice(-3)).toEqual(forms.map(({ id }) => id));
  expect(all.mark).toBe(minus(times[1] ?? "", 60_000));
  context.proxy.requests.length = 0;
  const next = client.changesSince(all.mark);
  expect(await idsOf(next)).toEqual([forms[1]?.id]);
  expect(context.proxy.requests.map(({ path }) => path)).toEqual([
    `/v1/forms?limit=100&updatedSince=${encodeURIComponent(all.mark ?? "")}`,
  ]);
  expect(next.mark).toBe(all.mark);
});

test("a read that ends early keeps the mark as given", async () => {
  await createOne();
  const mark = "2026-01-01T01:00:00+01:00";
  const changes = context.client().forms.changesSince(mark);
  for await (const _form of changes) break;
  expect(changes.mark).toBe(mark);
  context.proxy.injectAlways(respondWith(500, "{}"));
  const failed = context.client({ maxRetries: 0 }).forms.changesSince(mark);
  await expect(idsOf(failed)).rejects.toThrow("500");
  expect(failed.mark).toBe(mark);
});

test("without a change the mark stays, and it never goes back", async () => {
  const { id } = await createOne();
  const changed = await setChanged(id, 3600);
  const marks = [minus(changed, 30_000), minus(changed, -1000)];
  for (const mark of marks) {
    const changes = context.client().forms.changesSince(new Date(mark));
    expect(await idsOf(changes)).toEqual(mark === marks[0] ? [id] : []);
    expect(changes.mark).toBe(mark);
  }
});

test("filters apply, and an invalid Date is rejected before any request", async () => {
  const form = await createOne();
  const other = await createOne();
  await context.client().forms.update(form.id, { ...context.uniqueStay(), externalId: "changed" });
  const changes = context.client().forms.changesSince(form.createdAt, { externalId: "changed" });
  expect(await idsOf(changes)).toEqual([form.id]);
  expect(other.updatedAt).toBe(other.createdAt);
  context.proxy.requests.length = 0;
  expect(() => context.client().forms.changesSince(new Date(Number.NaN))).toThrow("mark is an invalid Date");
  await expect(context.client().forms.list({ checkInFrom: new Date(Number.NaN) })).rejects.toThrow("checkInFrom");
  expect(context.proxy.requests).toEqual([]);
});

test("polling misses no change that commits within a minute, however late it is seen", async () => {
  const [slow, fast] = [await createOne(), await createOne()];
  const session = new pg.Client({ connectionString: services.db.url });
  await session.connect();
  try {
    // The slow change is made first and commits 59.9 s later, after a later change was seen.
    await session.query("BEGIN");
    const made = await setChanged(slow.id, 7200, session);
    await services.db.pool.query("UPDATE forms SET updated_at = $2 WHERE id = $1", [fast.id, minus(made, -59_900)]);
    const first = context.client().forms.changesSince(minus(made, 3_600_000));
    expect(await idsOf(first)).not.toContain(slow.id);
    await session.query("COMMIT");
    const second = context.client().forms.changesSince(first.mark);
    expect(await idsOf(second)).toEqual([slow.id, fast.id]);
    // Seen again, and not lost, until a later change moves the mark.
    expect(await idsOf(context.client().forms.changesSince(second.mark))).toEqual([slow.id, fast.id]);
  } finally {
    await session.end();
  }
});
