import type { Socket } from "node:net";
import { TcpProxy } from "../support/tcp-proxy.js";

/**
 * Progress of a create, as seen on the connection to Postgres:
 * - before the write: its INSERT is not sent.
 * - during the write: its INSERT is sent, but not its COMMIT.
 * - during the commit: its COMMIT is sent.
 * - after the commit: Postgres has confirmed the COMMIT.
 */
export type Phase = "before the write" | "during the write" | "during the commit" | "after the commit";

type StatementKind = "insert" | "commit" | "other";

/** The gateway sends COMMIT together with its INSERT. A network may separate them. */
const COMMIT_DELAY_MS = 5;

function kindOf(sql: string): StatementKind {
  if (/INSERT\s+INTO\s+(?:"?public"?\.)?"?forms"?[\s(]/i.test(sql)) return "insert";
  return /^\s*(?:COMMIT|END)\b/i.test(sql) ? "commit" : "other";
}

/** A proxy between one gateway and Postgres that reports the phase of the current create, and delays its COMMIT. */
export class CreatePhaseProxy {
  /** postgres:// address through the proxy. */
  url = "";
  phase: Phase = "before the write";
  /** Called when the phase changes: after the gateway's bytes are forwarded, before those of Postgres are. */
  onPhase: (phase: Phase) => void = () => {};

  #isCommitLost = false;

  private constructor() {}

  static async start(databaseUrl: string): Promise<CreatePhaseProxy> {
    const proxy = new CreatePhaseProxy();
    const forward = (gateway: Socket, postgres: Socket) => proxy.#forward(gateway, postgres);
    proxy.url = (await TcpProxy.start(databaseUrl, { forward })).url;
    return proxy;
  }

  /** Call before the next create. */
  reset(): void {
    this.phase = "before the write";
    this.onPhase = () => {};
  }

  /** Call when the gateway is killed: a COMMIT that was not forwarded yet never is. */
  loseCommit(): void {
    this.#isCommitLost = true;
  }

  #forward(gateway: Socket, postgres: Socket): void {
    const prepared = new Map<string, StatementKind>();
    let isWriting = false;
    /** COMMIT and everything behind it, while COMMIT is delayed. */
    let delayed: Buffer[] | undefined;
    // A client's first message, StartupMessage, has no type byte. P is Parse, B is Bind, Q is Query.
    const kindOfMessage = (type: string, body: Buffer): StatementKind => {
      const [first = "", second = ""] = body.toString("latin1").split("\0", 2);
      if (type === "P") prepared.set(first, kindOf(second));
      if (type === "B") return prepared.get(second) ?? "other";
      return type === "Q" ? kindOf(first) : "other";
    };
    const sendDelayed = () => {
      if (this.#isCommitLost || !postgres.writable) return;
      postgres.write(Buffer.concat(delayed ?? []));
      delayed = undefined;
      this.#enter("during the commit");
    };
    const readFromGateway = createMessageReader({ untypedMessages: 1 }, (message, type, body) => {
      const kind = kindOfMessage(type, body);
      if (kind === "commit" && isWriting && !delayed) {
        delayed = [];
        setTimeout(sendDelayed, COMMIT_DELAY_MS);
      }
      if (delayed) delayed.push(message);
      else postgres.write(message);
      if (kind !== "insert") return;
      isWriting = true;
      this.#enter("during the write");
    });
    const readFromPostgres = createMessageReader({ untypedMessages: 0 }, (_message, type, body) => {
      // Z is ReadyForQuery, I is idle: not in a transaction.
      if (type !== "Z" || body.toString() !== "I" || !isWriting) return;
      isWriting = false;
      this.#enter("after the commit");
    });
    gateway.on("data", readFromGateway);
    postgres.on("data", (chunk) => {
      // Reports the phase before it forwards: otherwise the gateway could respond before it is killed.
      readFromPostgres(chunk);
      gateway.write(chunk);
    });
  }

  #enter(phase: Phase): void {
    this.phase = phase;
    this.onPhase(phase);
  }
}

/** Splits a stream into messages: https://www.postgresql.org/docs/current/protocol-message-formats.html */
function createMessageReader(
  { untypedMessages }: { untypedMessages: number },
  onMessage: (message: Buffer, type: string, body: Buffer) => void,
): (chunk: Buffer) => void {
  let buffered: Buffer = Buffer.alloc(0);
  let untypedLeft = untypedMessages;
  return (chunk) => {
    buffered = Buffer.concat([buffered, chunk]);
    for (;;) {
      const start = untypedLeft > 0 ? 0 : 1;
      if (buffered.length < start + 4) return;
      const end = start + buffered.readInt32BE(start);
      if (buffered.length < end) return;
      const type = start === 1 ? String.fromCharCode(buffered[0] ?? 0) : "";
      onMessage(buffered.subarray(0, end), type, buffered.subarray(start + 4, end));
      if (start === 0) untypedLeft -= 1;
      buffered = buffered.subarray(end);
    }
  };
}
