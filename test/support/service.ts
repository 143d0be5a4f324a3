import { expect } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { afterFile } from "./after-file.js";
import { makeFixture } from "./gateway-processes.js";
import { slowestMs, type TimedResponse } from "./http-client.js";
import { type MailServer, mailEnv, startMailServer } from "./mail-server.js";
import { runSql } from "./run-sql.js";
import { ServiceProcess } from "./service-process.js";
import { Traffic, type TrafficOptions } from "./traffic.js";

/** A request gets its response within this time, also if Postgres does not respond. */
export const MAX_RESPONSE_MS = 3_000;

/** Starts two gateways, with these settings, and a key holder on an empty database of a Postgres of the test. */
export async function startService(url: string, settings: Record<string, string> = {}) {
  await migrate(url);
  const fixture = await makeFixture(url);
  const env = { ...fixture.env, ...settings };
  const gateways = ["one", "two"].map((name) => new ServiceProcess(`gateway ${name}`, "gateway", env));
  const processes = [...gateways];
  for (const gateway of gateways) await gateway.start();
  return {
    fixture,

    /** The URLs of the gateways in turn. */
    gatewayUrl: (n: number) => gateways[n % gateways.length]?.url ?? "",

    /** Starts clients of the key holder. */
    startTraffic: (options: Omit<TrafficOptions, "urls" | "key" | "listingIds">) =>
      new Traffic({
        urls: gateways.map((gateway) => gateway.url),
        key: fixture.key.key,
        listingIds: [fixture.listing.id],
        ...options,
      }),

    async startWorker(): Promise<MailServer> {
      const mailServer = await startMailServer();
      afterFile(() => mailServer.close());
      const worker = new ServiceProcess("worker", "worker", { ...fixture.env, ...mailEnv(mailServer.url) });
      processes.push(worker);
      await worker.start();
      return mailServer;
    },

    /** Asserts that no gateway and no worker has exited. */
    expectNoExits: () => expect(processes.flatMap(({ unexpectedExits }) => unexpectedExits)).toEqual([]),

    /** Asserts that no client waited longer than the service promises. */
    expectResponsesInTime: (responses: Pick<TimedResponse, "sentAt" | "receivedAt">[]) =>
      expect(slowestMs(responses), "ms of the slowest response").toBeLessThan(MAX_RESPONSE_MS),
  };
}

/** Waits until workers have sent all emails and webhooks. */
export async function waitForEmails(databaseUrl: string, timeout = 60_000): Promise<void> {
  const of = (table: string) => `SELECT id, '${table}' AS table FROM ${table} WHERE state <> 'sent'`;
  const unsent = () => runSql(databaseUrl, `${of("emails")} UNION ALL ${of("webhook_deliveries")}`);
  await expect.poll(unsent, { timeout }).toEqual([]);
}
