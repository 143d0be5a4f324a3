import { beforeAll, describe, expect, it } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { createTestDatabase } from "../support/database.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { makeForm } from "../support/factories.js";
import {
  countLogLines,
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcess,
} from "../support/gateway-processes.js";
import { sendRequest } from "../support/http-client.js";
import { fixedStay } from "../support/stays.js";
import { runSqlmap, type Target } from "./sqlmap.js";
import { startVulnerableServer } from "./vulnerable-server.js";

/** One sqlmap process uses a whole core. */
const CONCURRENCY = 2;

async function runConcurrently<Result>(tasks: (() => Promise<Result>)[]): Promise<Result[]> {
  const results: Result[] = [];
  const queue = tasks.entries();
  const runTasks = async () => {
    for (const [index, task] of queue) results[index] = await task();
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, runTasks));
  return results;
}

describeWithBinary("sqlmap", "SQL injection", () => {
  let fixture: Fixture;
  let gateway: GatewayProcess;
  let form: FormV1;
  let cursor: string;

  beforeAll(async () => {
    fixture = await makeFixture();
    form = await makeForm(fixture.services, fixture.userId, fixture.listing.id);
    await makeForm(fixture.services, fixture.userId, fixture.listing.id);
    gateway = await startGatewayProcess(fixture.env);
    const page = await sendRequest(`${gateway.url}/v1/forms?limit=1`, fixture.key.key);
    cursor = (page.json as { nextCursor: string }).nextCursor;
  });

  /** Every parameter and body field of every operation, and every header that the service reads. */
  function targets(): Target[] {
    const { url } = gateway;
    const { key } = fixture.key;
    const headers = { Authorization: `Bearer ${key}` };
    const json = { ...headers, "Content-Type": "application/json" };
    const listingId = fixture.listing.id;
    const body = fixedStay(listingId, { guestEmail: "ana@example.com" });
    const fields = Object.keys(body);
    // Marks numbers without quotes, so that they are tested as numbers.
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

  it("sqlmap finds no injection in any parameter, body field or header", async () => {
    const all = targets();
    const began = performance.now();
    const findings = await runConcurrently(all.map((target) => () => runSqlmap(target)));
    const seconds = Math.round((performance.now() - began) / 1000);
    const requests = countLogLines(gateway, '"msg":"request"');
    console.info(
      `sqlmap: ${all.flatMap(({ values }) => values).length} values, ${requests} requests, ${seconds} s`,
    );
    for (const [index, { vulnerable, safe, output }] of findings.entries()) {
      expect(vulnerable, output).toEqual([]);
      expect(safe, output).toEqual(all[index]?.values);
    }
    expect(countLogLines(gateway, '"status":5'), "responses with status 500 and above").toBe(0);
  });

  describe("control: a vulnerable server", () => {
    let url: string;
    beforeAll(async () => {
      url = await startVulnerableServer((await createTestDatabase({ empty: true })).url);
    });

    it("sqlmap finds the injection in a query, a path, a header and a body", async () => {
      const vulnerableTargets: Target[] = [
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
      const findings = await runConcurrently(vulnerableTargets.map((target) => () => runSqlmap(target)));
      expect(findings.map(({ vulnerable }) => vulnerable)).toEqual(
        vulnerableTargets.map(({ values }) => values),
      );
      console.info(`sqlmap finds ${findings.length} of ${vulnerableTargets.length} injectable values`);
    });
  });
});
