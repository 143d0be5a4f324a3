import { expect } from "vitest";
import type { GatewayProcess } from "../support/gateway-processes.js";
import { countLogLines } from "../support/gateway-processes.js";
import { startHaproxy } from "../support/haproxy.js";
import { sendRequest } from "../support/http-client.js";
import { type MailServer, mailEnv } from "../support/mail-server.js";
import { restartablePort } from "../support/network.js";
import type { RunningProcess } from "../support/processes.js";
import type { Version } from "./versions.js";

const HOSTS = ["127.0.0.2", "127.0.0.3"] as const;

/** Two gateways behind HAProxy and a worker, whose versions can be replaced one process at a time. */
export class UpgradableFleet {
  readonly url: string;
  readonly #env: Record<string, string>;
  readonly #mailEnv: Record<string, string>;
  readonly #ports: readonly [number, number];
  readonly #gateways: GatewayProcess[] = [];
  #worker: RunningProcess | undefined;

  private constructor(
    url: string,
    env: Record<string, string>,
    mailServer: MailServer,
    ports: readonly [number, number],
  ) {
    this.url = url;
    this.#env = env;
    this.#mailEnv = mailEnv(mailServer.url);
    this.#ports = ports;
  }

  static async start(
    haproxy: string,
    version: Version,
    env: Record<string, string>,
    mailServer: MailServer,
  ): Promise<UpgradableFleet> {
    const ports = [await restartablePort(), await restartablePort()] as const;
    const url = await startHaproxy(haproxy, [`${HOSTS[0]}:${ports[0]}`, `${HOSTS[1]}:${ports[1]}`]);
    const fleet = new UpgradableFleet(url, env, mailServer, ports);
    for (const index of HOSTS.keys()) await fleet.#startGateway(index, version);
    await fleet.#startWorker(version);
    return fleet;
  }

  /** Replaces each process by one of this version, one after the other, as gateway/docs/operating.md describes. */
  async replaceBy(version: Version, key: string): Promise<void> {
    for (const [index, { process }] of [...this.#gateways.entries()]) {
      expect((await process.stop("SIGTERM")).code).toBe(0);
      await this.#startGateway(index, version);
      await this.#waitUntilServing(index, key);
    }
    expect((await this.#worker?.stop("SIGTERM"))?.code).toBe(0);
    await this.#startWorker(version);
  }

  /** Kills the gateways and the worker. */
  async stop(): Promise<void> {
    const processes = [...this.#gateways.map(({ process }) => process), this.#worker];
    await Promise.all(processes.map((process) => process?.stop("SIGKILL")));
  }

  async #startGateway(index: number, version: Version): Promise<void> {
    const settings = { HOST: HOSTS[index] ?? "", PORT: String(this.#ports[index]), TRUST_PROXY: "1" };
    // A draining gateway waits for the idle connections of HAProxy.
    const draining = { DRAIN_DELAY_SECONDS: "2", DRAIN_SECONDS: "2" };
    const process = version.spawn(["serve", "--no-worker"], { ...this.#env, ...settings, ...draining });
    const [, url = ""] = await process.waitForLine(/^Listening on ([^;]+);/, 120_000);
    this.#gateways[index] = { url, process };
  }

  async #startWorker(version: Version): Promise<void> {
    this.#worker = version.spawn(["worker"], { ...this.#env, ...this.#mailEnv });
    await this.#worker.waitForLine(/^Sending notifications/, 60_000);
  }

  /** Waits until HAProxy routes requests to the gateway. */
  async #waitUntilServing(index: number, key: string): Promise<void> {
    const gateway = this.#gateways[index] as GatewayProcess;
    const served = async () => {
      await sendRequest(`${this.url}/v1/listings?limit=1`, key);
      return countLogLines(gateway, '"listings.list"');
    };
    await expect.poll(served, { timeout: 20_000, interval: 100 }).toBeGreaterThan(0);
  }
}
