import { createSocket } from "node:dgram";
import { promises as dns } from "node:dns";
import { once } from "node:events";
import { isIPv6 } from "node:net";
import { onTestFinished } from "vitest";

const TYPE_A = 1;
const TYPE_AAAA = 28;
const NO_SUCH_NAME = 3;

/** Answers a question: the addresses of a name, "silent" to send no answer, or no address for one that does not exist. */
type Resolve = (name: string) => string[] | "silent";

/** The name, its end and the type of the first question (RFC 1035, 4.1). */
function readQuestion(message: Buffer): { name: string; end: number; type: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = message.readUInt8(at); length > 0; length = message.readUInt8(at)) {
    labels.push(message.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join("."), end: at + 5, type: message.readUInt16BE(at + 1) };
}

/** The 4 or 16 bytes of an address. */
function bytesOf(address: string): Buffer {
  if (!isIPv6(address)) return Buffer.from(address.split(".").map(Number));
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [head = "", tail] = canonical.split("::");
  const groups = (text: string) => (text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16)));
  const end = tail === undefined ? [] : groups(tail);
  const start = groups(head);
  const all = [...start, ...Array(8 - start.length - end.length).fill(0), ...end];
  return Buffer.from(all.flatMap((group) => [group >> 8, group & 255]));
}

function answer(query: Buffer, addresses: string[]): Buffer {
  const { end, type } = readQuestion(query);
  const records = addresses
    .filter((address) => isIPv6(address) === (type === TYPE_AAAA))
    .map((address) => {
      const data = bytesOf(address);
      const record = Buffer.alloc(12);
      // A pointer to the name of the question, the type, the class, no time to live, and the length.
      record.writeUInt16BE(0xc00c, 0);
      record.writeUInt16BE(type, 2);
      record.writeUInt16BE(1, 4);
      record.writeUInt16BE(data.length, 10);
      return Buffer.concat([record, data]);
    });
  const header = Buffer.from(query.subarray(0, 12));
  header.writeUInt16BE(0x8180 | (addresses.length === 0 ? NO_SUCH_NAME : 0), 2);
  header.writeUInt16BE(records.length, 6);
  header.writeUInt32BE(0, 8);
  return Buffer.concat([header, query.subarray(12, end), ...records]);
}

/** Starts a name server, and a resolver that asks it. `queries` are the names that were asked for with A records. */
export async function openNameServer(resolve: Resolve) {
  const queries: string[] = [];
  const socket = createSocket("udp4");
  socket.on("message", (query, { port, address }) => {
    const { name, type } = readQuestion(query);
    if (type === TYPE_A) queries.push(name);
    const addresses = resolve(name);
    if (addresses !== "silent") socket.send(answer(query, addresses), port, address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  onTestFinished(() => void socket.close());
  const resolver = new dns.Resolver({ timeout: 500, tries: 1 });
  resolver.setServers([`127.0.0.1:${socket.address().port}`]);
  return { resolver, queries };
}
