import { expect } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { afterFile } from "../support/after-file.js";
import { type Fixture, type GatewayProcess, makeFixture, startGatewayProcesses } from "../support/gateway-processes.js";
import { slowestMs, type TimedResponse } from "../support/http-client.js";
import { type MailServer, mailEnv, startMailServer } from "../support/mail-server.js";
import { PostgresCluster } from "../support/postgres-cluster.js";
import { type RunningProcess, spawnCli } from "../support/processes.js";
import { runSql } from "../support/run-sql.js";
import { seededRandom } from "../support/statistics.js";
import { findViolations } from "./postgres-invariants.js";
import { countStatuses, type ResponseSample, Traffic, type TrafficOptions } from "./postgres-traffic.js";

interface ServiceOptions {
  gateways?: number;
  /** Overrides settings of the gateways and the worker. */
  settings?: Record<string, string>;
}

/** An empty database of the service. */
interface OwnPostgres {
  /** postgres:// URL. */
  url: string;
  /** Stops Postgres and removes its files. */
  remove(): Promise<void>;
}

/** Gateways and a key holder on a Postgres of their own, which can be stopped and frozen. Closed after the test file. */
export class PostgresService<Postgres extends OwnPostgres = PostgresCluster> {
  readonly cluster: Postgres;
  readonly fixture: Fixture;
  readonly gateways: GatewayProcess[];
  readonly #processes: RunningProcess[];
  readonly #closers: (() => unknown)[] = [];

  private constructor(cluster: Postgres, fixture: Fixture, gateways: GatewayProcess[]) {
    this.cluster = cluster;
    this.fixture = fixture;
    this.gateways = gateways;
    this.#processes = gateways.map(({ process }) => process);
  }

  static async start(options: ServiceOptions = {}): Promise<PostgresService> {
    return PostgresService.startOn(await PostgresCluster.create(), options);
  }

  /** Starts it on a Postgres of the test, and removes that Postgres after the test file. */
  static async startOn<Postgres extends OwnPostgres>(
    cluster: Postgres,
    { gateways: count = 2, settings }: ServiceOptions = {},
  ): Promise<PostgresService<Postgres>> {
    try {
      await migrate(cluster.url);
      const fixture = await makeFixture(cluster.url, settings);
      const gateways = await startGatewayProcesses(count, fixture.env);
      const service = new PostgresService(cluster, fixture, gateways);
      afterFile(() => service.close());
      return service;
    } catch (error) {
      await cluster.remove();
      throw error;
    }
  }

  /** The gateways in turn. */
  gateway(n: number): GatewayProcess {
    return this.gateways[n % this.gateways.length] as GatewayProcess;
  }

  async startWorker(env: Record<string, string> = {}): Promise<MailServer> {
    const mailServer = await startMailServer();
    this.#closers.push(() => mailServer.close());
    const worker = spawnCli(["worker"], { env: { ...this.fixture.env, ...mailEnv(mailServer.url), ...env } });
    this.#processes.push(worker);
    await worker.waitForLine(/^Sending notifications/, 60_000);
    return mailServer;
  }

  /** Creates clients of the gateways. They send nothing yet. */
  createTraffic({ seed, ...options }: Pick<TrafficOptions, "perSecond" | "mix"> & { seed: number }): Traffic {
    const { key, listing } = this.fixture;
    const traffic = new Traffic({
      ...options,
      urls: this.gateways.map(({ url }) => url),
      key: key.key,
      listingIds: [listing.id],
      random: seededRandom(seed),
    });
    this.#closers.push(() => traffic.closeConnections());
    return traffic;
  }

  /**
   * Waits until every gateway has responded with success to a request of one of these kinds. Returns the time of the last of these first successes.
   */
  async waitForSuccess(traffic: Traffic, since: number, kinds: readonly ResponseSample["kind"][]): Promise<number> {
    const last = () => Math.max(...this.gateways.map((_, gateway) => firstSuccess(traffic, gateway, since, kinds)));
    await expect.poll(last).toBeLessThan(Number.POSITIVE_INFINITY);
    return last();
  }

  /** Retries failed creates; then asserts that the database has what was acknowledged, and nothing else. */
  async expectNoViolations(what: string, traffic: Traffic): Promise<void> {
    await traffic.stop();
    await traffic.retryUnacknowledged();
    const { forms, violations } = await findViolations(this.cluster.url, traffic.creates);
    console.info(
      `${what}: ${JSON.stringify(countStatuses(traffic.samples))}, slowest ` +
        `${slowestMs(traffic.samples).toFixed()} ms; ${forms} forms of ${traffic.creates.length} creates`,
    );
    expect([...traffic.violations, ...violations]).toEqual([]);
    expectResponsesInTime(traffic.samples);
  }

  /** Waits until workers have sent all emails. */
  async waitForEmails(timeout = 60_000): Promise<void> {
    const unsent = () => runSql(this.cluster.url, "SELECT id FROM notifications WHERE state <> 'sent'");
    await expect.poll(unsent, { timeout }).toEqual([]);
  }

  /** Asserts that no gateway and no worker has exited. */
  expectNoExits(): void {
    expect(this.#processes.filter((process) => process.hasExited)).toEqual([]);
  }

  /** Stops the processes, then Postgres, and removes its files. */
  async close(): Promise<void> {
    const closers = this.#closers.splice(0);
    await Promise.all(this.#processes.map((process) => process.stopOrKill()));
    for (const closer of closers) await closer();
    await this.cluster.remove();
  }
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
