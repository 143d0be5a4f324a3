import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { afterAll } from "vitest";

/**
 * Where in the dialogue the client is to be killed: at a share (from 0 to below 1) of its bytes before the content, or
 * of the content; when the receiver's 250 has come for it, which it is not given; or `ms` after it was given that 250.
 */
export type Moment =
  | { stage: "before DATA" | "in DATA"; share: number }
  | { stage: "250 on its way" }
  | { stage: "250 received"; ms: number };

/** How many bytes a client says before the content, and the content's own. */
export interface Lengths {
  before: number;
  content: number;
}

interface Armed {
  moment: Moment;
  lengths: Lengths;
  kill: () => void;
}

/** The way of one worker to the mail server, which knows how far a dialogue has come and can kill in it. */
export class SmtpTrap {
  /** smtp:// address by this way. */
  readonly url: string;
  /** Message-IDs of the contents that went by, with the time (as of `performance.now`). */
  readonly seen: { messageId: string; at: number }[] = [];
  /** Of the last dialogue that went through. */
  lengths: Lengths = { before: 0, content: 0 };
  #armed: Armed | undefined;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async lay(port: number): Promise<SmtpTrap> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const trap = new SmtpTrap(server);
    server.on("connection", (near) => trap.#join(near, connect(port, "127.0.0.1")));
    traps.push(trap);
    return trap;
  }

  /** Kills in the next dialogue. `lengths` are those of one like it. */
  arm(moment: Moment, lengths: Lengths, kill: () => void): void {
    this.#armed = { moment, lengths, kill };
  }

  close(): void {
    this.#server.close();
  }

  #join(near: Socket, far: Socket): void {
    const armed = this.#armed;
    const dialogue = { said: "", contentAt: Number.NaN, isTaken: false };
    const spring = () => {
      armed?.kill();
      near.destroy();
      // What went by before still arrives.
      far.end();
    };
    near.on("data", (chunk: Buffer) => {
      const room =
        (armed ? limitOf(armed, dialogue.contentAt) : Number.POSITIVE_INFINITY) - dialogue.said.length;
      const passed = chunk.subarray(0, Math.max(0, room));
      dialogue.said += passed.toString("latin1");
      far.write(passed);
      this.#note(dialogue);
      if (room < chunk.length) spring();
    });
    far.on("data", (chunk: Buffer) => {
      const answer = chunk.toString("latin1");
      const takes = dialogue.contentAt > 0 && !dialogue.isTaken && answer.startsWith("250 ");
      // Where commands are pipelined, it comes in one with the answers before it.
      if (/^354 /m.test(answer)) dialogue.contentAt = dialogue.said.length;
      if (takes) {
        dialogue.isTaken = true;
        this.lengths = { before: dialogue.contentAt, content: dialogue.said.length - dialogue.contentAt };
        if (armed?.moment.stage === "250 on its way") return spring();
        if (armed?.moment.stage === "250 received") setTimeout(spring, armed.moment.ms);
      }
      near.write(chunk);
    });
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.setNoDelay(true);
      one.on("error", () => {}).once("close", () => other.end());
    }
  }

  #note({ said, contentAt }: { said: string; contentAt: number }): void {
    if (Number.isNaN(contentAt)) return;
    const messageId = /^Message-ID: *(<[^>]+>)/im.exec(said.slice(contentAt))?.[1];
    if (messageId && this.seen.at(-1)?.messageId !== messageId)
      this.seen.push({ messageId, at: performance.now() });
  }
}

/** The end of a content: a dot alone on a line. */
const END = "\r\n.\r\n".length;

/** How many bytes of the client may pass. */
function limitOf({ moment, lengths }: { moment: Moment; lengths: Lengths }, contentAt: number): number {
  if (moment.stage === "before DATA") return Math.floor(moment.share * lengths.before);
  if (moment.stage !== "in DATA" || Number.isNaN(contentAt)) return Number.POSITIVE_INFINITY;
  return contentAt + Math.floor(moment.share * (lengths.content - END));
}

const traps: SmtpTrap[] = [];
afterAll(() => {
  for (const trap of traps) trap.close();
});
