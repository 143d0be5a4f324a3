import type { Socket } from "node:net";
import { TcpProxy } from "../support/tcp-proxy.js";

/**
 * When to kill the client during an SMTP session:
 * - before DATA: after a fraction (0 to below 1) of the bytes that the client sends before the message.
 * - during DATA: after a fraction of the bytes of the message.
 * - before 250 received: when the server has accepted the message, before the client gets the 250.
 * - after 250 received: `delayMs` after the client got the 250.
 */
export type KillPoint =
  | { stage: "before DATA" | "during DATA"; fraction: number }
  | { stage: "before 250 received" }
  | { stage: "after 250 received"; delayMs: number };

/** Number of bytes that a client sends: before the message, and for the message. */
export interface SessionBytes {
  beforeMessage: number;
  message: number;
}

interface Armed {
  killPoint: KillPoint;
  expectedBytes: SessionBytes;
  kill: () => void;
}

/** A proxy between one worker and the mail server that can kill the worker at a chosen point of an SMTP session. */
export class SmtpKillProxy {
  /** smtp:// address through the proxy. */
  url = "";
  /** Message-IDs of the messages sent through the proxy, with `performance.now()` of each. */
  readonly seen: { messageId: string; at: number }[] = [];
  /** Of the last accepted message. */
  sessionBytes: SessionBytes = { beforeMessage: 0, message: 0 };
  #armed: Armed | undefined;

  private constructor() {}

  static async start(port: number): Promise<SmtpKillProxy> {
    const proxy = new SmtpKillProxy();
    const forward = (worker: Socket, mailServer: Socket) => proxy.#forward(worker, mailServer);
    proxy.url = (await TcpProxy.start(`smtp://127.0.0.1:${port}`, { forward })).url;
    return proxy;
  }

  /** Calls `kill` in the next session. `expectedBytes` are those of a similar session. */
  killInNextSession(killPoint: KillPoint, expectedBytes: SessionBytes, kill: () => void): void {
    this.#armed = { killPoint, expectedBytes, kill };
  }

  #forward(worker: Socket, mailServer: Socket): void {
    const armed = this.#armed;
    const session = { sent: "", messageStart: Number.NaN, isAccepted: false };
    const kill = () => {
      armed?.kill();
      worker.destroy();
      // `end`, not `destroy`: the mail server still gets what was forwarded.
      mailServer.end();
    };
    worker.on("data", (chunk: Buffer) => {
      const left =
        (armed ? maxBytesOf(armed, session.messageStart) : Number.POSITIVE_INFINITY) - session.sent.length;
      const forwarded = chunk.subarray(0, Math.max(0, left));
      session.sent += forwarded.toString("latin1");
      mailServer.write(forwarded);
      this.#recordMessageId(session);
      if (left < chunk.length) kill();
    });
    mailServer.on("data", (chunk: Buffer) => {
      const reply = chunk.toString("latin1");
      const acceptsMessage = session.messageStart > 0 && !session.isAccepted && reply.startsWith("250 ");
      // With pipelined commands, the 354 arrives in one chunk with earlier replies.
      if (/^354 /m.test(reply)) session.messageStart = session.sent.length;
      if (acceptsMessage) {
        session.isAccepted = true;
        this.sessionBytes = {
          beforeMessage: session.messageStart,
          message: session.sent.length - session.messageStart,
        };
        if (armed?.killPoint.stage === "before 250 received") return kill();
        if (armed?.killPoint.stage === "after 250 received") setTimeout(kill, armed.killPoint.delayMs);
      }
      worker.write(chunk);
    });
  }

  #recordMessageId({ sent, messageStart }: { sent: string; messageStart: number }): void {
    if (Number.isNaN(messageStart)) return;
    const messageId = /^Message-ID: *(<[^>]+>)/im.exec(sent.slice(messageStart))?.[1];
    if (messageId && this.seen.at(-1)?.messageId !== messageId)
      this.seen.push({ messageId, at: performance.now() });
  }
}

/** The end of a message: a line with only a dot. */
const TERMINATOR_BYTES = "\r\n.\r\n".length;

/** How many bytes of the worker to forward. */
function maxBytesOf(
  { killPoint, expectedBytes }: Pick<Armed, "killPoint" | "expectedBytes">,
  messageStart: number,
): number {
  if (killPoint.stage === "before DATA") return Math.floor(killPoint.fraction * expectedBytes.beforeMessage);
  if (killPoint.stage !== "during DATA" || Number.isNaN(messageStart)) return Number.POSITIVE_INFINITY;
  return messageStart + Math.floor(killPoint.fraction * (expectedBytes.message - TERMINATOR_BYTES));
}
