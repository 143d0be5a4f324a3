import type { Socket } from "node:net";
import { TcpProxy } from "../support/tcp-proxy.js";

/**
 * Progress of a create, as seen on the connection to Postgres:
 * - before the write: its INSERT is not sent.
 * - during the write: its INSERT is sent.
 * - during the commit: the end of its transaction is sent (the INSERT itself if it is not in a transaction block).
 * - after the commit: Postgres has confirmed the end of the transaction.
 */
export type Phase = "before the write" | "during the write" | "during the commit" | "after the commit";

type StatementKind = "begin" | "insert" | "commit" | "other";

function kindOf(sql: string): StatementKind {
  if (/INSERT\s+INTO\s+(?:"?public"?\.)?"?forms"?[\s(]/i.test(sql)) return "insert";
  if (/^\s*(?:BEGIN|START TRANSACTION)\b/i.test(sql)) return "begin";
  return /^\s*(?:COMMIT|END)\b/i.test(sql) ? "commit" : "other";
}

/** A proxy between one gateway and Postgres that reports the phase of the current create. */
export class CreatePhaseProxy {
  /** postgres:// address through the proxy. */
  url = "";
  phase: Phase = "before the write";
  /** Called when the phase changes: after the gateway's bytes are forwarded, before those of Postgres are. */
  onPhase: (phase: Phase) => void = () => {};

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

  #forward(gateway: Socket, postgres: Socket): void {
    const prepared = new Map<string, StatementKind>();
    let isInTransaction = false;
    let isWriting = false;
    const onStatement = (kind: StatementKind) => {
      if (kind === "begin") isInTransaction = true;
      if (kind === "insert") {
        isWriting = true;
        this.#enter("during the write");
      }
      if (isWriting && (kind === "commit" || !isInTransaction)) this.#enter("during the commit");
    };
    // A client's first message, StartupMessage, has no type byte. P is Parse, B is Bind, Q is Query.
    const readFromGateway = createMessageReader({ untypedMessages: 1 }, (type, body) => {
      const [first = "", second = ""] = body.toString("latin1").split("\0", 2);
      if (type === "P") prepared.set(first, kindOf(second));
      if (type === "B") onStatement(prepared.get(second) ?? "other");
      if (type === "Q") onStatement(kindOf(first));
    });
    const readFromPostgres = createMessageReader({ untypedMessages: 0 }, (type, body) => {
      // Z is ReadyForQuery, I is idle: not in a transaction.
      if (type !== "Z" || body.toString() !== "I") return;
      isInTransaction = false;
      if (!isWriting) return;
      isWriting = false;
      this.#enter("after the commit");
    });
    gateway.on("data", (chunk) => {
      postgres.write(chunk);
      readFromGateway(chunk);
    });
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
  onMessage: (type: string, body: Buffer) => void,
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
      if (start === 1) onMessage(String.fromCharCode(buffered[0] ?? 0), buffered.subarray(5, end));
      else untypedLeft -= 1;
      buffered = buffered.subarray(end);
    }
  };
}
