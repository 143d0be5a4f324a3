import { promises as dns, type LookupAddress } from "node:dns";
import { BlockList } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

// The addresses of receivers.

const LOOKUP_TIMEOUT_MS = 2_000;
/** All tries of a query, with any number of name servers. Leaves half of the time of an attempt to connect and to get an answer. */
const MAX_LOOKUP_MS = 5_000;
/** Used of a name, per family. */
const MAX_ADDRESSES = 4;

/** Addresses that the agent counts as public: IPv4 in IPv6, and a range that is discarded. */
const NOT_PUBLIC = new BlockList();
NOT_PUBLIC.addSubnet("::", 96, "ipv6");
NOT_PUBLIC.addSubnet("100:0:0:1::", 64, "ipv6");

/** The one reason for a name that does not resolve, and for an address that is refused. */
export const UNUSABLE_ADDRESS = "the host name does not resolve to a public address";

export type Resolver = Pick<dns.Resolver, "resolve4" | "resolve6">;

/** Returns the addresses of a name to connect to. Rejects with an error without a code if there are none. */
export type FindAddresses = (hostname: string) => Promise<LookupAddress[]>;

// `dns.lookup` would occupy one of the four threads of the process while a name server does not answer.
export const openResolver = (): Resolver => new dns.Resolver({ timeout: LOOKUP_TIMEOUT_MS, tries: 2 });

/** Uses neither the machine's hosts file nor its search domains. The agent refuses private addresses in any other notation. */
export const findWith =
  (resolver: Resolver): FindAddresses =>
  async (hostname) => {
    const found = await Promise.all([
      addressesOf(resolver.resolve4(hostname), 4),
      addressesOf(resolver.resolve6(hostname), 6),
    ]);
    const addresses = found.flat();
    const isRefused = addresses.some(({ address, family }) => family === 6 && NOT_PUBLIC.check(address, "ipv6"));
    if (addresses.length === 0 || isRefused) throw new Error(UNUSABLE_ADDRESS);
    return addresses;
  };

/** None if the query fails, or is not answered in time. */
async function addressesOf(query: Promise<string[]>, family: 4 | 6): Promise<LookupAddress[]> {
  const found = await Promise.race([query.catch(() => []), sleep(MAX_LOOKUP_MS, [], { ref: false })]);
  return found.slice(0, MAX_ADDRESSES).map((address) => ({ address, family }));
}

/** As the machine resolves names, with its hosts file. */
export const findLocally: FindAddresses = async (hostname) =>
  (await dns.lookup(hostname, { all: true })).slice(0, 2 * MAX_ADDRESSES);
