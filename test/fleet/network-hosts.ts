import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { promisify } from "node:util";
import { afterAll } from "vitest";

/** A simulated host with its own IP address. */
export interface NetworkHost {
  /** The address its processes listen on. */
  address: string;
  /** The address at which its processes reach the test. */
  testAddress: string;
  /** What to put before a command to run it on this host. */
  commandPrefix: string[];
}

const ip = (...args: string[]) => promisify(execFile)("ip", args);

const namespaces: string[] = [];
afterAll(async () => {
  // Deleting a namespace also deletes both ends of its veth pair.
  for (const name of namespaces) await ip("netns", "delete", name).catch(() => {});
});

/** Creates hosts in network namespaces, or on separate loopback addresses if namespaces are not permitted. */
export async function createNetworkHosts(count: number): Promise<NetworkHost[]> {
  try {
    const hosts: NetworkHost[] = [];
    for (let index = 0; index < count; index++) hosts.push(await createNamespace(index));
    return hosts;
  } catch (error) {
    if (process.env.CI && process.getuid?.() === 0) throw error;
    return Array.from({ length: count }, (_, index) => ({
      address: `127.0.0.${index + 2}`,
      testAddress: "127.0.0.1",
      commandPrefix: [],
    }));
  }
}

async function createNamespace(index: number): Promise<NetworkHost> {
  const name = `gf${randomBytes(3).toString("hex")}${index}`;
  const [octet = 0] = randomBytes(1);
  const [testAddress, address] = [`10.213.${octet}.${index * 4 + 1}`, `10.213.${octet}.${index * 4 + 2}`];
  await ip("netns", "add", name);
  namespaces.push(name);
  await ip("link", "add", `${name}t`, "type", "veth", "peer", "name", `${name}h`, "netns", name);
  await ip("address", "add", `${testAddress}/30`, "dev", `${name}t`);
  await ip("link", "set", `${name}t`, "up");
  await ip("-n", name, "address", "add", `${address}/30`, "dev", `${name}h`);
  await ip("-n", name, "link", "set", `${name}h`, "up");
  await ip("-n", name, "link", "set", "lo", "up");
  return { address, testAddress, commandPrefix: ["ip", "netns", "exec", name] };
}
