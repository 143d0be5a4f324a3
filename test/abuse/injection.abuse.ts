import { beforeAll, describe, expect, it } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { fixedStay, makeForm } from "../factories.js";
import { describeWith } from "../fleet/binaries.js";
import { call } from "../fleet/client.js";
import { type Host, linesWith, makeWorld, startHost, type World } from "../fleet/fleet.js";
import { createTestDatabase } from "../harness.js";
import { startInjectable } from "./injectable.js";
import { runSqlmap, type Target } from "./sqlmap.js";

/** sqlmap keeps a core busy by itself. */
const AT_ONCE = 2;

async function runAll<Result>(works: (() => Promise<Result>)[]): Promise<Result[]> {
  const results: Result[] = [];
  const queue = works.entries();
  const lane = async () => {
    for (const [index, work] of queue) results[index] = await work();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return results;
}

describeWith("sqlmap", "SQL injection", () => {
  let world: World;
  let host: Host;
  let form: FormV1;
  let cursor: string;

  beforeAll(async () => {
    world = await makeWorld();
    form = await makeForm(world.services, world.userId, world.listing.id);
    await makeForm(world.services, world.userId, world.listing.id);
    host = await startHost(world.env);
    const page = await call(`${host.url}/v1/forms?limit=1`, world.key.key);
    cursor = (page.json as { nextCursor: string }).nextCursor;
  });

  /** Every parameter of every operation, and every header that means something. */
  function targets(): Target[] {
    const { url } = host;
    const { key } = world.key;
    const headers = { Authorization: `Bearer ${key}` };
    const json = { ...headers, "Content-Type": "application/json" };
    const listingId = world.listing.id;
    const body = fixedStay(listingId, { guestEmail: "ana@example.com" });
    const fields = Object.keys(body);
    // A number is tested as such, the rest as text.
    const marked = JSON.stringify(
      Object.fromEntries(Object.entries(body).map(([name, value]) => [name, `${value}*`])),
    ).replace(/"(\d+\*)"/, "$1");
    return [
      {
        url: `${url}/v1/forms?limit=5*&cursor=${cursor}*`,
        headers,
        values: ["limit of forms", "cursor of forms"],
      },
      { url: `${url}/v1/forms?listingId=${listingId}*`, headers, values: ["listingId of forms"] },
      {
        url: `${url}/v1/listings?limit=5*&cursor=x*`,
        headers,
        values: ["limit of listings", "cursor of listings"],
      },
      { url: `${url}/v1/forms/${form.id}*`, headers, values: ["id of a form"] },
      { url: `${url}/v1/listings/${listingId}*`, headers, values: ["id of a listing"] },
      {
        url: `${url}/v1/forms`,
        method: "POST",
        headers: json,
        body: marked,
        values: fields.map((field) => `${field} of a create`),
      },
      {
        url: `${url}/v1/forms/${form.id}*`,
        method: "PUT",
        headers: json,
        body: JSON.stringify(body),
        values: ["id of an update"],
      },
      {
        url: `${url}/v1/forms/${form.id}`,
        method: "PUT",
        headers: json,
        body: marked,
        values: fields.map((field) => `${field} of an update`),
      },
      {
        url: `${url}/v1/forms`,
        method: "POST",
        headers: { ...json, "Idempotency-Key": "retry-1*" },
        body: JSON.stringify(body),
        values: ["Idempotency-Key"],
      },
      { url: `${url}/v1/forms`, headers: { "X-API-Key": `${key}*` }, values: ["X-API-Key"] },
      { url: `${url}/v1/forms`, headers: { Authorization: `Bearer ${key}*` }, values: ["Authorization"] },
    ];
  }

  it("is found in no parameter, no field and no header", async () => {
    const all = targets();
    const began = performance.now();
    const findings = await runAll(all.map((target) => () => runSqlmap(target)));
    const seconds = Math.round((performance.now() - began) / 1000);
    const requests = linesWith(host, '"msg":"request"');
    console.info(
      `sqlmap: ${all.flatMap(({ values }) => values).length} values, ${requests} requests, ${seconds} s`,
    );
    for (const [index, { vulnerable, safe, said }] of findings.entries()) {
      expect(vulnerable, said).toEqual([]);
      expect(safe, said).toEqual(all[index]?.values);
    }
    expect(linesWith(host, '"status":5'), "answers of 500 and above").toBe(0);
  });

  describe("is found where it is", () => {
    let url: string;
    beforeAll(async () => {
      url = await startInjectable((await createTestDatabase({ empty: true })).url);
    });

    it("in a query, a path, a header and a body", async () => {
      const places: Target[] = [
        { url: `${url}/query?id=one*`, values: ["query"] },
        { url: `${url}/path/one*`, values: ["path"] },
        { url: `${url}/header`, headers: { "X-API-Key": "one*" }, values: ["header"] },
        {
          url: `${url}/body`,
          method: "POST",
          headers: { "Content-Type": "application/json" },
          body: '{"id":"one*"}',
          values: ["body"],
        },
      ];
      const findings = await runAll(places.map((place) => () => runSqlmap(place)));
      expect(findings.map(({ vulnerable }) => vulnerable)).toEqual(places.map(({ values }) => values));
      console.info(`sqlmap finds ${findings.length} of ${places.length} injectable values`);
    });
  });
});
