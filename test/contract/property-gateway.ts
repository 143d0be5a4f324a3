import { randomInt } from "node:crypto";
import fc from "fast-check";
import { afterAll, expect, vi } from "vitest";
import { startHolderGateway } from "../gateway/holder-gateway.js";
import { makeForm } from "../support/factories.js";
import type { HttpRequest } from "../support/gateway.js";
import type { HttpResponse } from "../support/response.js";
import { anyHeaders } from "./arbitraries.js";

const numRuns = Number(process.env.FAST_CHECK_RUNS ?? 25);
const seed = Number(process.env.FAST_CHECK_SEED ?? randomInt(2 ** 31));

type Send = (sent: Partial<HttpRequest>) => Promise<HttpResponse>;
type Headers = typeof anyHeaders extends fc.Arbitrary<infer Value> ? Value : never;

/**
 * Starts a gateway for properties of requests, with a key holder who has two forms on a listing for at most 4 guests. Every response is checked: it must not be a server error, and write nothing if it is
 * an error or a read.
 */
export async function startForProperties() {
  // A failure prints its seed too, and its path.
  console.log(`Properties: ${numRuns} runs each. To repeat them: FAST_CHECK_SEED=${seed}`);
  fc.configureGlobal({ numRuns, seed });
  afterAll(() => fc.resetConfigureGlobal());
  vi.setConfig({ testTimeout: 60_000 + 300 * numRuns });

  const { gateway, services, holder, listingId, send } = await startHolderGateway({}, { maxPeopleInListing: 4 });
  const { id: formId } = await makeForm(services, holder.userId, listingId);
  await makeForm(services, holder.userId, listingId);
  /** Snapshot of all rows after the last request. */
  let rows = await gateway.snapshotTables();
  let requests = 0;

  async function checkResponse(answer: HttpResponse, method: string): Promise<HttpResponse> {
    expect(answer.status).toBeLessThan(500);
    const before = rows;
    rows = await gateway.snapshotTables();
    if (answer.status >= 400 || method === "GET" || method === "HEAD") expect(rows).toEqual(before);
    return answer;
  }

  /** Sends with other headers, which must not matter. */
  const sendWith =
    ({ key, contentType, idempotencyKey, other }: Headers): Send =>
    async (sent) => {
      const secret = sent.key === undefined ? holder.key : sent.key;
      const answer = await send({
        ...sent,
        key: null,
        headers: {
          ...other,
          ...(secret !== null && key(secret)),
          ...(sent.body !== undefined && { "Content-Type": contentType }),
          // Unique: a create with the key of another body is rejected.
          ...(idempotencyKey !== null && { "Idempotency-Key": `${++requests}:${idempotencyKey}` }),
          ...sent.headers,
        },
      });
      return checkResponse(answer, sent.method ?? "GET");
    };

  /** Checks a property for values of the arbitraries, each with its own headers. */
  const assertFor = <Values extends unknown[]>(
    arbitraries: { [Index in keyof Values]: fc.Arbitrary<Values[Index]> },
    check: (send: Send, ...values: Values) => Promise<void>,
  ) =>
    fc.assert(
      fc.asyncProperty(anyHeaders, fc.tuple<Values>(...arbitraries), (headers, values) =>
        check(sendWith(headers), ...values),
      ),
    );

  return { gateway, holder, listingId, formId, checkResponse, assertFor };
}
