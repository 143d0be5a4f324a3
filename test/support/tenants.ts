import { Agent } from "node:http";
import { expect } from "vitest";
import type { Services } from "../../server/access/context.js";
import { durationsOf, type LoadResult, startConstantRateLoad } from "./constant-rate-load.js";
import { makeForm, makeKey, makeListing, makeUser } from "./factories.js";
import { type RequestOptions, sendRequest, type TimedResponse } from "./http-client.js";
import { countValues, quantile } from "./statistics.js";
import { uniqueStay } from "./stays.js";

export type Tenant = Awaited<ReturnType<typeof makeTenant>>;

/** Makes a key holder with one listing. */
export async function makeTenant(services: Services) {
  const { id: userId } = await makeUser(services);
  const { id: listingId } = await makeListing(services, userId);
  const { key } = await makeKey(services, userId);
  const agent = new Agent({ keepAlive: true });
  /** Sends a request with the tenant's key; connections are kept open. */
  const send = (url: string, path: string, options?: RequestOptions) =>
    sendRequest(`${url}${path}`, key, { agent, ...options });
  /** Creates a form that equals no other. */
  const create = (url: string) => send(url, "/v1/forms", { method: "POST", body: uniqueStay(listingId) });
  return { userId, listingId, key, send, create };
}

const WARM_UP_ROUNDS = 20;

/**
 * Sends a few requests of these tenants at the same time. A new process responds slowly at first, and so does a new connection to
 * Postgres: afterwards the pool has as many as the tenants use.
 */
export async function warmUp(url: string, tenants: readonly Tenant[]): Promise<void> {
  const round = (tenant: Tenant) => [
    tenant.create(url),
    tenant.create(url),
    tenant.send(url, "/v1/forms?limit=1"),
    tenant.send(url, `/v1/forms?limit=1&listingId=${tenant.listingId}`),
    tenant.send(url, "/readyz"),
  ];
  for (let n = 0; n < WARM_UP_ROUNDS; n++) await Promise.all(tenants.flatMap(round));
}

/** Requests per second of each kind that a neighbor sends. */
const PER_SECOND = 15;

/** What a neighbor has seen. */
export interface Seen {
  /** Of the requests of each kind. */
  p99Ms: Record<string, number>;
}

/**
 * Sends lists, fetches and creates of this tenant, and health checks, at a constant rate, after a warm-up of each kind. One
 * kind of list follows the creates. `stop` asserts that every request succeeded.
 */
export async function startNeighbor(url: string, services: Services, tenant: Tenant) {
  const { id } = await makeForm(services, tenant.userId, tenant.listingId);
  let cursor = "";
  /** The page after the last one: its forms are recent, so it may wait for creates in flight. */
  const listNext = async () => {
    const response = await tenant.send(url, `/v1/forms?limit=1${cursor && `&cursor=${cursor}`}`);
    cursor = (response.json as { nextCursor?: string }).nextCursor ?? cursor;
    return response;
  };
  const kinds: Record<string, () => Promise<TimedResponse>> = {
    list: listNext,
    "list of a listing": () => tenant.send(url, `/v1/forms?limit=1&listingId=${tenant.listingId}`),
    fetch: () => tenant.send(url, `/v1/forms/${id}`),
    create: () => tenant.create(url),
    readyz: () => tenant.send(url, "/readyz"),
    livez: () => tenant.send(url, "/livez"),
  };
  for (let n = 0; n < WARM_UP_ROUNDS; n++) await Promise.all(Object.values(kinds).map((send) => send()));
  const loads = Object.entries(kinds).map(([kind, send]) => [kind, startConstantRateLoad(PER_SECOND, send)] as const);
  return {
    async stop(): Promise<Seen> {
      const results = await Promise.all(loads.map(async ([kind, load]) => ({ kind, ...(await load.stop()) })));
      for (const { kind, outcomes } of results)
        expect([kind, ...outcomes.keys()]).toEqual([kind, kind === "create" ? 201 : 200]);
      const p99Of = ({ requests }: LoadResult) => quantile(durationsOf(requests), 0.99);
      return { p99Ms: Object.fromEntries(results.map((result) => [result.kind, p99Of(result)])) };
    },
  };
}

/** In a run that is judged, 99 % of `/livez` take less: it waits for the process and its machine only. */
const MAX_LIVEZ_MS = 20;
const MAX_RUNS = 3;

/**
 * Asserts that 99 % of a neighbor's requests of each kind take less than `maxMs`, and what `check` does. Judges the machine
 * first: a run on a busy one is not judged but repeated. Throws if none of three runs can be judged.
 */
export async function expectFast<Run extends Seen>(maxMs: number, run: () => Promise<Run>, check?: (run: Run) => void) {
  for (let n = 0; n < MAX_RUNS; n++) {
    const seen = await run();
    const { livez = Number.POSITIVE_INFINITY, ...others } = seen.p99Ms;
    const isJudged = livez < MAX_LIVEZ_MS;
    const times = Object.entries(seen.p99Ms).map(([kind, ms]) => `${kind} ${ms.toFixed()}`);
    console.info(`p99 of a neighbor in ms: ${times.join(", ")}${isJudged ? "" : "; not judged: the machine is busy"}`);
    if (!isJudged) continue;
    for (const [kind, ms] of Object.entries(others)) expect(ms, `p99 of ${kind}`).toBeLessThan(maxMs);
    check?.(seen);
    return;
  }
  throw new Error(`Not judged: in ${MAX_RUNS} runs the machine was too busy. Repeat it on a quiet machine.`);
}

/** Asserts that each response is a success, or 503 with `Retry-After`; returns the number of each status. */
export function countServed(responses: TimedResponse[]): Record<string, number> {
  for (const { status, headers } of responses) {
    if (status >= 300) expect([status, Number(headers["retry-after"]) > 0]).toEqual([503, true]);
  }
  return countValues(responses.map(({ status }) => status));
}
