import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { expect } from "vitest";
import type { Services } from "../../server/access/context.js";
import { durationsOf, type Span, startConstantRateLoad } from "./constant-rate-load.js";
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

const PAUSE_MS = 10;
const STALL_MS = 50;
const MAX_STALLED_SHARE = 0.2;

/**
 * Commits every 10 ms what touches no table, so that it waits for nothing but Postgres' log, its standby, and this process.
 * `stop` returns which requests were not under way while such a commit ended more than 50 ms late: a disk, machine or test
 * process that pauses delays everybody, whatever the service does. Fails if that was more than a fifth of the time.
 */
async function watchCommits(databaseUrl: string) {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const began = performance.now();
  const stalls: Span[] = [];
  let isStopped = false;
  const running = (async () => {
    for (let from = performance.now(); !isStopped; ) {
      await client.query("SELECT pg_logical_emit_message(true, 'test', '')");
      const to = performance.now();
      if (to - from > STALL_MS) stalls.push({ from, to });
      from = to + PAUSE_MS;
      await sleep(PAUSE_MS);
    }
  })();
  return {
    async stop(): Promise<(request: Span) => boolean> {
      isStopped = true;
      await running;
      await client.end();
      const stalledMs = durationsOf(stalls).reduce((total, ms) => total + ms, 0);
      if (stalledMs > 0) console.info(`${stalls.length} commits of no table took ${stalledMs.toFixed()} ms`);
      const share = stalledMs / (performance.now() - began);
      expect(share, "share of the time in which Postgres stalled").toBeLessThan(MAX_STALLED_SHARE);
      return (request) => !stalls.some(({ from, to }) => request.from < to && from < request.to);
    },
  };
}

/** Requests per second of each kind that a neighbor sends. */
const PER_SECOND = 15;

/** What a neighbor has seen of one kind of request. */
interface Seen {
  outcomes: Record<string, number>;
  p99Ms: number;
}

/**
 * Sends lists, fetches and creates of this tenant, and health checks, at a constant rate, after a warm-up of each kind. One
 * kind of list follows the creates. `stop` returns what it has seen of each. Requests that were under way while Postgres
 * itself stalled are not timed.
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
  const commits = await watchCommits(services.db.url);
  const loads = Object.entries(kinds).map(([kind, send]) => [kind, startConstantRateLoad(PER_SECOND, send)] as const);
  return {
    async stop(): Promise<Record<string, Seen>> {
      const results = await Promise.all(loads.map(async ([kind, load]) => ({ kind, ...(await load.stop()) })));
      const isUndisturbed = await commits.stop();
      return Object.fromEntries(
        results.map(({ kind, requests, outcomes }) => {
          const p99Ms = quantile(durationsOf(requests.filter(isUndisturbed)), 0.99);
          return [kind, { outcomes: Object.fromEntries(outcomes), p99Ms }];
        }),
      );
    },
  };
}

/**
 * Asserts that every request of the neighbor succeeded, 99 % of `/livez` within `maxMs` and 99 % of each other kind within
 * `maxMs` more than that. `/livez` waits for the process and its machine only, so a machine that is slow for everybody does not
 * count as noise of a tenant.
 */
export function expectUndisturbed(what: string, seen: Record<string, Seen>, maxMs: number): void {
  const times = Object.entries(seen).map(([kind, { p99Ms }]) => `${kind} ${p99Ms.toFixed()}`);
  console.info(`${what}: p99 of a neighbor in ms: ${times.join(", ")}`);
  for (const [kind, { outcomes }] of Object.entries(seen)) {
    expect([kind, Object.keys(outcomes)]).toEqual([kind, [kind === "create" ? "201" : "200"]]);
  }
  const { livez, ...others } = seen;
  expect(livez?.p99Ms, "p99 of livez").toBeLessThan(maxMs);
  for (const [kind, { p99Ms }] of Object.entries(others)) {
    expect(p99Ms - (livez?.p99Ms ?? 0), `p99 of ${kind} above livez`).toBeLessThan(maxMs);
  }
}

/** Asserts that each response is a success, or 503 with `Retry-After`; returns the number of each status. */
export function countServed(responses: TimedResponse[]): Record<string, number> {
  for (const { status, headers } of responses) {
    if (status >= 300) expect([status, Number(headers["retry-after"]) > 0]).toEqual([503, true]);
  }
  return countValues(responses.map(({ status }) => status));
}
