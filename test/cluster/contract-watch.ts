import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { FormBody, FormV1 } from "../../server/forms/schema.js";
import { afterFile } from "../support/after-file.js";
import { asOperator, makeKey, makeListing } from "../support/factories.js";
import { type RequestOptions, sendRequest, startLoad } from "../support/http-client.js";
import { runSql } from "../support/run-sql.js";
import type { startService } from "../support/service.js";
import { uniqueStay } from "../support/stays.js";

// Clients that watch promises of the contract which hold also while a primary fails. They expect 503 at any time.

type Service = Awaited<ReturnType<typeof startService>>;

/** The promised time. */
const MAX_REVOCATION_MS = 1_000;
const PAGE_SIZE = 7;
const PAUSE_MS = 20;

const agent = new Agent({ keepAlive: true });
afterFile(() => agent.destroy());

/** Runs a step again and again until it is stopped. `stop` rejects if a step did. */
function startLoop(step: () => Promise<void>): { stop(): Promise<void> } {
  let isStopped = false;
  const running = (async () => {
    while (!isStopped) {
      await step();
      await sleep(PAUSE_MS);
    }
  })();
  // Handled by `stop`.
  running.catch(() => {});
  const stop = () => {
    isStopped = true;
    return running;
  };
  afterFile(() => stop().catch(() => {}));
  return { stop };
}

/** Starts requests with a key on every gateway. */
export async function startKeyInUse({ fixture, gatewayUrl }: Service) {
  const { services, userId, listing } = fixture;
  const { id, key } = await makeKey(services, userId);
  const load = startLoad(2, (n) => sendRequest(`${gatewayUrl(n)}/v1/listings/${listing.id}`, key, { agent }), PAUSE_MS);
  await expect.poll(() => load.responses.filter(({ status }) => status === 200).length).toBeGreaterThan(2);
  let revokedAt = Number.NaN;
  return {
    async revoke(): Promise<void> {
      await asOperator(services).keys.revoke({ id });
      revokedAt = performance.now();
    },

    /** Asserts that every request since a second after the revocation was refused or got 503, and that the last was refused. */
    async expectRefused(): Promise<void> {
      const late = () => load.responses.filter(({ sentAt }) => sentAt > revokedAt + MAX_REVOCATION_MS);
      await expect.poll(() => late().at(-1)?.status).toBe(401);
      await load.stop();
      expect(load.errors).toEqual([]);
      expect(late().filter(({ status }) => status !== 401 && status !== 503)).toEqual([]);
    },
  };
}

/** Starts a client that reads the list of forms again and again from the cursor of its last full page. */
export function startFollower({ fixture, gatewayUrl }: Service) {
  const ids: string[] = [];
  let cursor = "";
  let lastPage: string[] = [];
  let requests = 0;
  const readPage = async () => {
    const path = `/v1/forms?limit=${PAGE_SIZE}${cursor && `&cursor=${cursor}`}`;
    const { status, json } = await sendRequest(gatewayUrl(requests++) + path, fixture.key.key, { agent });
    if (status !== 200) return;
    const { items, nextCursor } = json as { items: FormV1[]; nextCursor: string | null };
    const page = items.map(({ id }) => id);
    if (nextCursor) ids.push(...page);
    cursor = nextCursor ?? cursor;
    lastPage = nextCursor ? [] : page;
  };
  const loop = startLoop(readPage);
  return {
    /** Reads to the end, and asserts that it has got every form exactly once, in the order of the list. */
    async expectComplete(databaseUrl: string): Promise<void> {
      await loop.stop();
      const rows = await runSql<{ id: string }>(databaseUrl, "SELECT id FROM forms ORDER BY created_at, id");
      const read = async () => {
        await readPage();
        return ids.length + lastPage.length;
      };
      await expect.poll(read, { interval: 0 }).toBe(rows.length);
      expect([...ids, ...lastPage]).toEqual(rows.map(({ id }) => id));
    },
  };
}

/** Starts a client that changes a form again and again, and reads each acknowledged change on every gateway. */
export async function startReaderOfOwnWrites({ fixture, gatewayUrl }: Service) {
  const { services, userId, key } = fixture;
  const { id: listingId } = await makeListing(services, userId);
  const stale: string[] = [];
  let changes = 0;
  const send = (gateway: number, path: string, options: RequestOptions = {}) =>
    sendRequest(`${gatewayUrl(gateway)}/v1/forms${path}`, key.key, { agent, ...options });
  const stay: FormBody = uniqueStay(listingId);
  const created = await send(0, "", { method: "POST", body: stay });
  expect(created.status).toBe(201);
  const { id } = created.json as FormV1;
  /** What the form may have: the last acknowledged number, and those of later changes without a response. */
  let possible = [(created.json as FormV1).numberOfGuests];
  const change = async () => {
    const numberOfGuests = 1 + (changes % 9);
    const { status } = await send(changes, `/${id}`, { method: "PUT", body: { ...stay, numberOfGuests } });
    possible = status === 200 ? [numberOfGuests] : [...possible, numberOfGuests];
    changes++;
    for (const gateway of [0, 1]) {
      const { status, json } = await send(gateway, `/${id}`);
      const read = (json as FormV1).numberOfGuests;
      if (status === 200 && !possible.includes(read))
        stale.push(`${read} instead of ${possible} after ${changes} changes`);
    }
  };
  const loop = startLoop(change);
  return {
    /** Asserts that no read returned what was there before an acknowledged change. */
    async expectNothingStale(): Promise<void> {
      await loop.stop();
      expect(stale).toEqual([]);
    },
  };
}
