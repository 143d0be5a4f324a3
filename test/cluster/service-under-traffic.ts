import { expect } from "vitest";
import { expectNothingLost } from "../support/acknowledged.js";
import { afterFile } from "../support/after-file.js";
import { startService, waitForEmails } from "../support/service.js";
import { countStatuses } from "../support/traffic.js";

/** Starts gateways, a worker, and clients that send this many requests per second while servers of the database fail. */
export async function startUnderTraffic(databaseUrl: string, perSecond: number, settings?: Record<string, string>) {
  const service = await startService(databaseUrl, settings);
  const mailServer = await service.startWorker();
  const traffic = service.startTraffic({
    perSecond,
    mix: { create: 40, repeat: 5, update: 15, list: 10, fetch: 20, listing: 10 },
    seed: 22,
  });
  afterFile(() => traffic.stop());
  return {
    ...service,
    traffic,

    /** Waits until both gateways have answered such a request, sent after this time, with 503. */
    async waitUntilRejected(kind: "create" | "fetch", since: number): Promise<void> {
      const rejected = () =>
        traffic.sentBetween(since).filter((sample) => sample.kind === kind && sample.status === 503);
      await expect.poll(() => new Set(rejected().map(({ gateway }) => gateway)).size).toBe(2);
    },

    /** Asserts that no create which was sent since this time has succeeded. */
    expectNoCreates(since: number): void {
      const creates = traffic.sentBetween(since).filter(({ kind }) => kind === "create");
      expect(creates.filter(({ status }) => status === 201)).toEqual([]);
    },

    /**
     * Stops the clients, and asserts that all failures lost or duplicated nothing that was acknowledged, exited no process and
     * failed requests only with 503 and Retry-After, and that every email is sent.
     */
    async expectIntact(listingIds?: string[]): Promise<void> {
      const acknowledged = traffic.creates.filter(({ form }) => form).length;
      const { forms } = await expectNothingLost(traffic, databaseUrl, listingIds && { listingIds });
      const statuses = countStatuses(traffic.samples);
      console.info(`${JSON.stringify(statuses)}, ${acknowledged} creates acknowledged, ${forms} forms`);
      expect(Object.keys(statuses).sort()).toEqual(["200", "201", "503"]);
      service.expectNoExits();
      await waitForEmails(databaseUrl);
      expect(mailServer.received.length).toBeGreaterThan(0);
    },
  };
}
