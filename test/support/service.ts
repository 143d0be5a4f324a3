import { expect } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { afterFile } from "./after-file.js";
import { type GatewayProcess, makeFixture, startGatewayProcesses } from "./gateway-processes.js";
import { slowestMs, type TimedResponse } from "./http-client.js";
import { type MailServer, mailEnv, startMailServer } from "./mail-server.js";
import { type RunningProcess, spawnCli } from "./processes.js";
import { runSql } from "./run-sql.js";
import type { ResponseSample, Traffic } from "./traffic.js";

interface ServiceOptions {
  gateways?: number;
  /** Overrides settings of the gateways and the worker. */
  settings?: Record<string, string>;
}

/** Starts gateways and a key holder on an empty database of a Postgres of the test. */
export async function startPostgresService(url: string, { gateways: count = 2, settings }: ServiceOptions = {}) {
  await migrate(url);
  const fixture = await makeFixture(url, settings);
  const gateways = await startGatewayProcesses(count, fixture.env);
  const processes: RunningProcess[] = gateways.map(({ process }) => process);
  return {
    fixture,
    gateways,

    /** The gateways in turn. */
    gateway: (n: number) => gateways[n % gateways.length] as GatewayProcess,

    async startWorker(env: Record<string, string> = {}): Promise<MailServer> {
      const mailServer = await startMailServer();
      afterFile(() => mailServer.close());
      const worker = spawnCli(["worker"], { env: { ...fixture.env, ...mailEnv(mailServer.url), ...env } });
      processes.push(worker);
      await worker.waitForLine(/^Sending emails/, 60_000);
      return mailServer;
    },

    /** Waits until workers have sent all emails and webhooks. */
    async waitForEmails(timeout = 60_000): Promise<void> {
      const of = (table: string) => `SELECT id, '${table}' AS table FROM ${table} WHERE state <> 'sent'`;
      const unsent = () => runSql(url, `${of("emails")} UNION ALL ${of("webhook_deliveries")}`);
      await expect.poll(unsent, { timeout }).toEqual([]);
    },

    /** Asserts that no gateway and no worker has exited. */
    expectNoExits: () => expect(processes.filter((process) => process.hasExited)).toEqual([]),
  };
}

/** Returns when a gateway first responded with success, to a request of any or one of these kinds; infinity if it did not. */
export const firstSuccess = (
  { samples }: Traffic,
  gateway: number,
  since: number,
  kinds?: readonly ResponseSample["kind"][],
): number =>
  samples.find(
    (sample) =>
      sample.gateway === gateway &&
      sample.receivedAt > since &&
      sample.status < 300 &&
      (!kinds || kinds.includes(sample.kind)),
  )?.receivedAt ?? Number.POSITIVE_INFINITY;

/** A request gets its response within this time, also if Postgres does not respond. */
const MAX_RESPONSE_MS = 3_000;

/** Asserts that no client waited longer than the service promises. */
export const expectResponsesInTime = (responses: Pick<TimedResponse, "sentAt" | "receivedAt">[]) =>
  expect(slowestMs(responses), "ms of the slowest response").toBeLessThan(MAX_RESPONSE_MS);
