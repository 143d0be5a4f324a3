import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { afterAll } from "vitest";

/**
 * How far a create has come, seen from the wire: its INSERT not yet sent; sent; the end of its transaction sent (with
 * the INSERT itself where that stands alone), but not answered; answered.
 */
export type Phase = "before the write" | "during the write" | "during the commit" | "after the commit";

type Kind = "begin" | "insert" | "commit" | "other";

function kindOf(sql: string): Kind {
  if (/INSERT\s+INTO\s+(?:"?public"?\.)?"?forms"?[\s(]/i.test(sql)) return "insert";
  if (/^\s*(?:BEGIN|START TRANSACTION)\b/i.test(sql)) return "begin";
  return /^\s*(?:COMMIT|END)\b/i.test(sql) ? "commit" : "other";
}

/** The way of one gateway to its database, listened to. */
export class Tap {
  /** The database's address by this way. */
  readonly url: string;
  phase: Phase = "before the write";
  /** Called when the phase changes: after the gateway's bytes were sent on, before the database's are. */
  onPhase: (phase: Phase) => void = () => {};
  readonly #server: Server;

  private constructor(server: Server, url: string) {
    this.#server = server;
    this.url = url;
  }

  static async lay(databaseUrl: string): Promise<Tap> {
    const target = new URL(databaseUrl);
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = new URL(databaseUrl);
    url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const tap = new Tap(server, url.href);
    server.on("connection", (near) => tap.#join(near, connect(Number(target.port || 5432), target.hostname)));
    taps.push(tap);
    return tap;
  }

  /** Before the next create. */
  reset(): void {
    this.phase = "before the write";
    this.onPhase = () => {};
  }

  close(): void {
    this.#server.close();
  }

  #join(near: Socket, far: Socket): void {
    const prepared = new Map<string, Kind>();
    let inTransaction = false;
    let isWriting = false;
    const onStatement = (kind: Kind) => {
      if (kind === "begin") inTransaction = true;
      if (kind === "insert") {
        isWriting = true;
        this.#enter("during the write");
      }
      if (isWriting && (kind === "commit" || !inTransaction)) this.#enter("during the commit");
    };
    // The first message of a client has no type.
    const fromGateway = readMessages({ untyped: 1 }, (type, body) => {
      const [first = "", second = ""] = body.toString("latin1").split("\0", 2);
      if (type === "P") prepared.set(first, kindOf(second));
      if (type === "B") onStatement(prepared.get(second) ?? "other");
      if (type === "Q") onStatement(kindOf(first));
    });
    const fromDatabase = readMessages({ untyped: 0 }, (type, body) => {
      // Ready, and in no transaction.
      if (type !== "Z" || body.toString() !== "I") return;
      inTransaction = false;
      if (!isWriting) return;
      isWriting = false;
      this.#enter("after the commit");
    });
    near.on("data", (chunk) => {
      far.write(chunk);
      fromGateway(chunk);
    });
    far.on("data", (chunk) => {
      // Told before the gateway is, which would otherwise answer before it dies.
      fromDatabase(chunk);
      near.write(chunk);
    });
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.setNoDelay(true);
      one.on("error", () => {}).once("close", () => other.destroy());
    }
  }

  #enter(phase: Phase): void {
    this.phase = phase;
    this.onPhase(phase);
  }
}

/** Cuts one side of a connection into messages (PostgreSQL's documentation, "Message Formats"). */
function readMessages(
  { untyped }: { untyped: number },
  onMessage: (type: string, body: Buffer) => void,
): (chunk: Buffer) => void {
  let waiting: Buffer = Buffer.alloc(0);
  let left = untyped;
  return (chunk) => {
    waiting = Buffer.concat([waiting, chunk]);
    for (;;) {
      const start = left > 0 ? 0 : 1;
      if (waiting.length < start + 4) return;
      const end = start + waiting.readInt32BE(start);
      if (waiting.length < end) return;
      if (start === 1) onMessage(String.fromCharCode(waiting[0] ?? 0), waiting.subarray(5, end));
      else left -= 1;
      waiting = waiting.subarray(end);
    }
  };
}

const taps: Tap[] = [];
afterAll(() => {
  for (const tap of taps) tap.close();
});
