import { expect } from "vitest";
import { countLogLines, type GatewayProcess } from "../support/gateway-processes.js";
import { startHaproxy } from "../support/haproxy.js";
import { sendRequest } from "../support/http-client.js";
import { type MailServer, mailEnv } from "../support/mail-server.js";
import { restartablePort } from "../support/network.js";
import type { RunningProcess } from "../support/processes.js";
import type { Version } from "./versions.js";

/**
 * Starts two gateways behind HAProxy and a worker, whose versions can be replaced one process at a time. Resolves when both
 * gateways serve the requests of `key`.
 */
export async function startFleet(version: Version, env: Record<string, string>, key: string, mailServer: MailServer) {
  const hosts = ["127.0.0.2", "127.0.0.3"] as const;
  const ports = [await restartablePort(), await restartablePort()] as const;
  const url = await startHaproxy([`${hosts[0]}:${ports[0]}`, `${hosts[1]}:${ports[1]}`]);
  const gateways: GatewayProcess[] = [];
  let worker: RunningProcess;

  async function startGateway(index: number, of: Version): Promise<GatewayProcess> {
    const settings = { HOST: hosts[index] ?? "", PORT: String(ports[index]), TRUST_PROXY: "1" };
    // A draining gateway waits for the idle connections of HAProxy.
    const draining = { DRAIN_DELAY_SECONDS: "2", DRAIN_SECONDS: "2" };
    const process = of.spawn(["serve", "--no-worker"], { ...env, ...settings, ...draining });
    const [, ownUrl = ""] = await process.waitForLine(/^Listening on ([^;]+);/, 120_000);
    const gateway = { url: ownUrl, process };
    gateways[index] = gateway;
    return gateway;
  }

  /** HAProxy takes a second to find that a gateway is ready. */
  async function waitUntilServing(gateway: GatewayProcess): Promise<void> {
    const served = async () => {
      await sendRequest(`${url}/v1/listings?limit=1`, key);
      return countLogLines(gateway, '"listings.list"');
    };
    await expect.poll(served, { timeout: 20_000, interval: 100 }).toBeGreaterThan(0);
  }

  async function startWorker(of: Version): Promise<void> {
    worker = of.spawn(["worker"], { ...env, ...mailEnv(mailServer.url) });
    await worker.waitForLine(/^Sending /, 60_000);
  }

  await Promise.all([startGateway(0, version), startGateway(1, version), startWorker(version)]);
  for (const gateway of gateways) await waitUntilServing(gateway);
  return {
    url,

    /** Replaces each process by one of this version, one after the other, as gateway/docs/operating.md describes. */
    async replaceBy(next: Version): Promise<void> {
      for (const [index, { process }] of [...gateways.entries()]) {
        expect((await process.stop("SIGTERM")).code).toBe(0);
        await waitUntilServing(await startGateway(index, next));
      }
      expect((await worker.stop("SIGTERM")).code).toBe(0);
      await startWorker(next);
    },

    /** Kills the gateways and the worker. */
    async stop(): Promise<void> {
      const processes = [...gateways.map(({ process }) => process), worker];
      await Promise.all(processes.map((process) => process.stop("SIGKILL")));
    },
  };
}
