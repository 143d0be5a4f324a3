import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { promisify } from "node:util";
import { afterAll } from "vitest";

/** A host of the test's own. */
export interface Place {
  /** The address it listens on. */
  address: string;
  /** The address at which it reaches what the test serves. */
  test: string;
  /** What to put before a command so that it runs there. */
  within: string[];
}

const ip = (...args: string[]) => promisify(execFile)("ip", args);

const made: string[] = [];
afterAll(async () => {
  // With a namespace goes its end of the cable, and with that the other end.
  for (const name of made) await ip("netns", "delete", name).catch(() => {});
});

/** Hosts in network namespaces where those are permitted, else at loopback addresses of their own. */
export async function makePlaces(count: number): Promise<Place[]> {
  try {
    const places: Place[] = [];
    for (let index = 0; index < count; index++) places.push(await namespace(index));
    return places;
  } catch (error) {
    if (process.env.CI && process.getuid?.() === 0) throw error;
    return Array.from({ length: count }, (_, index) => ({
      address: `127.0.0.${index + 2}`,
      test: "127.0.0.1",
      within: [],
    }));
  }
}

async function namespace(index: number): Promise<Place> {
  const name = `gf${randomBytes(3).toString("hex")}${index}`;
  const [octet = 0] = randomBytes(1);
  const [test, address] = [`10.213.${octet}.${index * 4 + 1}`, `10.213.${octet}.${index * 4 + 2}`];
  await ip("netns", "add", name);
  made.push(name);
  await ip("link", "add", `${name}t`, "type", "veth", "peer", "name", `${name}h`, "netns", name);
  await ip("address", "add", `${test}/30`, "dev", `${name}t`);
  await ip("link", "set", `${name}t`, "up");
  await ip("-n", name, "address", "add", `${address}/30`, "dev", `${name}h`);
  await ip("-n", name, "link", "set", `${name}h`, "up");
  await ip("-n", name, "link", "set", "lo", "up");
  return { address, test, within: ["ip", "netns", "exec", name] };
}
