import { expect, it } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { makeFixture, startGatewayProcess } from "../support/gateway-processes.js";
import {
  countOutcomes,
  readFormPages,
  sendRequest,
  slowestMs,
  startLoad,
  type TimedResponse,
} from "../support/http-client.js";
import { uniqueStay } from "../support/stays.js";

const BEHIND_SECONDS = 5;
const FORMS_BEFORE = 30;
const MAX_RESPONSE_MS = 2_000;

const idsOf = (forms: FormV1[]) => forms.map(({ id }) => id);
const inListOrder = (forms: FormV1[]) =>
  forms.toSorted((a, b) => (`${a.createdAt} ${a.id}` < `${b.createdAt} ${b.id}` ? -1 : 1));

it("if the clock of a promoted server is behind, creates and lists go on without a 503 or a delay; forms may get an earlier createdAt than older ones, a cursor from before skips exactly those, and a list read from the start has every form exactly once", async () => {
  const { services, listing, key, env } = await makeFixture();
  const gateway = await startGatewayProcess(env);
  // The clock of the server that stored these was ahead of the one that the database has now.
  await services.db.pool.query(
    `INSERT INTO forms (public_id, listing_id, fingerprint, created_at)
     SELECT left(replace(gen_random_uuid()::text, '-', ''), 21), $1, '\\x00',
       clock_timestamp() + interval '1 s' * ($2::float8 * i / $3::float8) FROM generate_series(1, $3::int) i`,
    [listing.id, BEHIND_SECONDS, FORMS_BEFORE],
  );
  const pages: TimedResponse[] = [];
  /** Reads the whole list, or what comes after a cursor. */
  async function readList(after?: string): Promise<FormV1[]> {
    const read = await readFormPages(gateway.url, key.key, 20, after);
    pages.push(...read);
    return read.flatMap(({ json }) => (json as { items: FormV1[] }).items);
  }
  /** Every form that exists, in the order of the responses. */
  const existing = await readList();
  const [newest, position] = existing.toReversed();
  const start = await sendRequest(`${gateway.url}/v1/forms?limit=${FORMS_BEFORE - 1}`, key.key);
  const { nextCursor: cursor } = start.json as { nextCursor: string };
  const hasCaughtUp = async () => {
    const { rows } = await services.db.pool.query("SELECT clock_timestamp() > $1::timestamptz AS yes", [
      newest?.createdAt,
    ]);
    return rows[0].yes;
  };

  const creating = startLoad(
    2,
    async () => {
      const response = await sendRequest(`${gateway.url}/v1/forms`, key.key, {
        method: "POST",
        body: uniqueStay(listing.id),
      });
      if (response.status === 201) existing.push(response.json as FormV1);
      return response;
    },
    50,
  );
  expect(await hasCaughtUp()).toBe(false);
  expect(idsOf(await readList(cursor)), "after the cursor while the clock is behind").toEqual([newest?.id]);
  let fullLists = 0;
  for (; !(await hasCaughtUp()); fullLists++) {
    const expected = idsOf(existing);
    const listed = idsOf(await readList());
    expect(new Set(listed).size, "no form is repeated").toBe(listed.length);
    expect(
      expected.filter((id) => !listed.includes(id)),
      "missed",
    ).toEqual([]);
  }
  await expect.poll(() => existing.at(-1)?.createdAt).toSatisfy((at) => at > (newest?.createdAt ?? ""));
  await creating.stop();

  const after = existing.slice(FORMS_BEFORE);
  const earlier = after.filter(({ createdAt }) => createdAt < (newest?.createdAt ?? ""));
  expect(earlier.length).toBeGreaterThan(0);
  expect(earlier.length).toBeLessThan(after.length);
  expect(Object.keys(countOutcomes(creating))).toEqual(["201"]);
  expect(Object.keys(countOutcomes({ responses: pages, errors: [] }))).toEqual(["200"]);
  expect(slowestMs([...creating.responses, ...pages])).toBeLessThan(MAX_RESPONSE_MS);
  expect(fullLists).toBeGreaterThan(3);
  const sorted = inListOrder(existing);
  expect(idsOf(await readList())).toEqual(idsOf(sorted));
  const expected = sorted.slice(sorted.findIndex(({ id }) => id === position?.id) + 1);
  expect(idsOf(await readList(cursor)), "after the cursor").toEqual(idsOf(expected));
});
