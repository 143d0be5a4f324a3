import { createServer } from "node:http";
import pg from "pg";
import { beforeAll, expect, it } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { afterFile } from "../support/after-file.js";
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
import { listenLocally } from "../support/network.js";
import { makeTempFolder, runTool } from "../support/run-tool.js";
import { fixedStay } from "../support/stays.js";

/** A request with an asterisk after each value to test; all of them in the URL, in one header, or in the body. */
interface Target {
  url: string;
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  /** Names of the marked values, in order. */
  values: string[];
}

const OPTIONS = [
  ...["--batch", "--flush-session", "--disable-coloring", "--ignore-stdin", "--skip-waf"],
  ...["--level=3", "--risk=2", "--threads=2", "--dbms=postgresql", "--timeout=20"],
  // Boolean-based, error-based, UNION, stacked and time-based.
  ...["--technique=BEUST", "--time-sec=2"],
  // Expected responses to an invalid value.
  "--ignore-code=400,401,404,422",
];

/** Tries to inject SQL into each marked value. Returns the names of those that are vulnerable, and of the others. */
async function runSqlmap({ url, method = "GET", headers = {}, body, values }: Target) {
  const headerFlags = Object.entries(headers).map(([name, value]) => `--header=${name}: ${value}`);
  const bodyFlags = body === undefined ? [] : [`--data=${body}`];
  const folder = await makeTempFolder("sqlmap");
  const target = ["-u", url, `--method=${method}`, ...headerFlags, ...bodyFlags];
  const args = [...target, ...OPTIONS, `--output-dir=${folder}`];
  const output = await runTool("sqlmap", args, 400);
  const namesOf = (verdict: RegExp) => {
    const found = [...output.matchAll(verdict)].map(([, number]) => values[Number(number) - 1] ?? `#${number}`);
    return [...new Set(found)];
  };
  return {
    vulnerable: namesOf(/parameter '[^']*#(\d+)\*' is vulnerable/g),
    safe: namesOf(/parameter '[^']*#(\d+)\*' does not seem to be injectable/g),
    output,
  };
}

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
    const valuesOf = (what: string) => fields.map((field) => `${field} of ${what}`);
    const target = (path: string, values: string[], more: Partial<Target> = {}): Target => ({
      url: `${url}/v1/${path}`,
      headers: more.method ? json : headers,
      values,
      ...more,
    });
    const onePut = { method: "PUT", body: JSON.stringify(body) };
    const idempotent = { ...json, "Idempotency-Key": "retry-1*" };
    return [
      target(`forms?limit=5*&cursor=${cursor}*`, ["limit of forms", "cursor of forms"]),
      target(`forms?listingId=${listingId}*`, ["listingId of forms"]),
      target("listings?limit=5*&cursor=x*", ["limit of listings", "cursor of listings"]),
      target(`forms/${form.id}*`, ["id of a form"]),
      target(`listings/${listingId}*`, ["id of a listing"]),
      target("forms", valuesOf("a create"), { method: "POST", body: marked }),
      target(`forms/${form.id}*`, ["id of an update"], onePut),
      target(`forms/${form.id}`, valuesOf("an update"), { method: "PUT", body: marked }),
      target("forms", ["Idempotency-Key"], { ...onePut, method: "POST", headers: idempotent }),
      target("forms", ["X-API-Key"], { headers: { "X-API-Key": `${key}*` } }),
      target("forms", ["Authorization"], { headers: { Authorization: `Bearer ${key}*` } }),
    ];
  }

  it("sqlmap finds no injection in any parameter, body field or header", async () => {
    const all = targets();
    const began = performance.now();
    const findings = await runConcurrently(all.map((target) => () => runSqlmap(target)));
    const seconds = Math.round((performance.now() - began) / 1000);
    // Writes the last lines of the log.
    await gateway.process.stop();
    const requests = countLogLines(gateway, '"msg":"request"');
    console.info(`sqlmap: ${all.flatMap(({ values }) => values).length} values, ${requests} requests, ${seconds} s`);
    for (const [index, { vulnerable, safe, output }] of findings.entries()) {
      expect(vulnerable, output).toEqual([]);
      expect(safe, output).toEqual(all[index]?.values);
    }
    expect(countLogLines(gateway, '"status":5'), "responses with status 500 and above").toBe(0);
  });

  it("control: sqlmap finds the injection in a query, a path, a header and a body of a vulnerable server", async () => {
    const url = await startVulnerableServer();
    const headers = { "Content-Type": "application/json" };
    const vulnerable: Target[] = [
      { url: `${url}/?id=one*`, values: ["query"] },
      { url: `${url}/one*`, values: ["path"] },
      { url, headers: { "X-API-Key": "one*" }, values: ["header"] },
      { url, method: "POST", headers, body: '{"id":"one*"}', values: ["body"] },
    ];
    const findings = await runConcurrently(vulnerable.map((target) => () => runSqlmap(target)));
    expect(findings.map((found) => found.vulnerable)).toEqual(vulnerable.map(({ values }) => values));
  });
});

/** Starts a server that is vulnerable on purpose, in the query, the path, a header and the body. */
async function startVulnerableServer(): Promise<string> {
  const pool = new pg.Pool({ connectionString: (await createTestDatabase({ empty: true })).url });
  await pool.query("CREATE TABLE secrets (id text, title text)");
  await pool.query("INSERT INTO secrets VALUES ('one', 'Loft'), ('two', 'Barn')");
  const server = createServer(async (req, res) => {
    const { pathname, searchParams } = new URL(req.url ?? "/", "http://localhost");
    let body = "";
    for await (const chunk of req) body += chunk;
    try {
      const inRequest = searchParams.get("id") ?? req.headers["x-api-key"];
      const id = inRequest ?? (body ? JSON.parse(body).id : decodeURIComponent(pathname.slice(1)));
      const { rows } = await pool.query(`SELECT title FROM secrets WHERE id = '${id}'`);
      res.statusCode = rows.length > 0 ? 200 : 404;
      res.end(JSON.stringify(rows));
    } catch {
      res.statusCode = 400;
      res.end('{"error":"bad request"}');
    }
  });
  const port = await listenLocally(server);
  afterFile(async () => {
    server.close().closeAllConnections();
    await pool.end();
  });
  return `http://127.0.0.1:${port}`;
}
