import { vi } from "vitest";
import { afterFile } from "../support/after-file.js";
import { startHaproxy } from "../support/haproxy.js";
import { sendRequest } from "../support/http-client.js";
import { restartablePort } from "../support/network.js";
import { ServiceProcess, type Spawn } from "../support/service-process.js";

export type BalancedFleet = Awaited<ReturnType<typeof startBalancedFleet>>;

/** Starts two gateways behind HAProxy, and prepares a worker. Resolves when both gateways serve the requests of `key`. */
export async function startBalancedFleet(env: Record<string, string>, key: string, spawn?: Spawn) {
  const ports = [await restartablePort(), await restartablePort()] as const;
  const url = await startHaproxy([`127.0.0.1:${ports[0]}`, `127.0.0.1:${ports[1]}`]);
  // A draining gateway waits for the idle connections of HAProxy.
  const settings = { ...env, HOST: "127.0.0.1", TRUST_PROXY: "1", DRAIN_DELAY_SECONDS: "3", DRAIN_SECONDS: "2" };
  const gateways = ports.map((port) => new ServiceProcess(`${port}`, "gateway", { ...settings, PORT: `${port}` }));
  const worker = new ServiceProcess("worker", "worker", env);

  const stop = () => Promise.all([...gateways, worker].map((process) => process.kill()));
  afterFile(stop);

  /** HAProxy takes a second to find that a gateway is ready. */
  async function waitUntilServing(gateway: ServiceProcess): Promise<void> {
    const serves = async () => {
      await sendRequest(`${url}/v1/listings?limit=1`, key).catch(() => undefined);
      return gateway.log.includes('"listings.list"');
    };
    await vi.waitUntil(serves, { timeout: 20_000, interval: 100 });
  }

  await Promise.all(gateways.map((gateway) => gateway.start(spawn)));
  for (const gateway of gateways) await waitUntilServing(gateway);
  return { url, ports, gateways, worker, waitUntilServing, stop };
}
