import type { Socket } from "node:net";
import { Duplex } from "node:stream";

/** Of interim responses, headers, framing and body together. */
const MAX_RECEIVED_BYTES = 65_536;
/** Of the handshake, session tickets and everything else that TLS adds. A certificate with the largest key costs 6 ms of CPU time and has 4 kB. */
const MAX_TLS_BYTES = 32_768;
const TLS_CHECK_MS = 20;
/** Handled without a break. */
const PIECE_BYTES = 2_048;
/** What all connections together take of an iteration of the event loop. A receiver can make each byte cost much CPU time. */
const BATCH_MS = 5;

/** The code of the error by which a connection ends that received more than it may. */
export const RECEIVED_TOO_MUCH = "RECEIVED_TOO_MUCH";

export const receivedTooMuch = () => Object.assign(new Error(), { code: RECEIVED_TOO_MUCH });

/** A connection that reads in small pieces, in turn with all others, and not more than its maximum. It closes once it has sent all. */
export class BoundedConnection extends Duplex {
  readonly #inner: Duplex;
  #received = 0;
  #isWanted = false;
  #isQueued = false;

  /** With TLS, `socket` is the connection beneath. */
  constructor(inner: Duplex, socket?: Socket) {
    super({ allowHalfOpen: false });
    this.#inner = inner;
    if (socket) this.#boundTls(socket);
    inner.on("readable", () => this.#queue());
    inner.on("end", () => this.push(null));
    inner.on("error", () => this.#endWithInner());
    inner.on("close", () => this.#endWithInner());
    this.on("finish", () => this.destroy());
  }

  override _read(): void {
    this.#isWanted = true;
    this.#queue();
  }

  #queue(): void {
    if (!this.#isWanted || this.#isQueued) return;
    this.#isQueued = true;
    queueCall(() => {
      this.#isQueued = false;
      if (!this.destroyed) this.#readPiece();
    });
  }

  #readPiece(): void {
    const available = this.#inner.readableLength;
    const piece: Buffer | null = this.#inner.read(available > PIECE_BYTES ? PIECE_BYTES : undefined);
    if (piece === null) {
      if (this.#inner.destroyed) this.#endWithInner();
      return;
    }
    this.#isWanted = false;
    this.#received += piece.length;
    if (this.#received > MAX_RECEIVED_BYTES) this.destroy(receivedTooMuch());
    else this.push(piece);
  }

  /** What was received before an error is read first: it may be an answer. */
  #endWithInner(): void {
    if (this.#inner.readableLength > 0) this.#queue();
    else this.destroy(this.#inner.errored ?? undefined);
  }

  /** TLS gives no event for most of what it receives. */
  #boundTls(socket: Socket): void {
    const timer = setInterval(() => {
      const content = this.#received + this.#inner.readableLength;
      if (socket.bytesRead - content > MAX_TLS_BYTES) this.destroy(receivedTooMuch());
    }, TLS_CHECK_MS);
    this.once("close", () => clearInterval(timer));
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#send(chunk, done);
  }

  /** In one write, as a socket does: the empty one that ends a request would fail if the receiver has answered and reset by then. */
  override _writev(chunks: { chunk: Buffer }[], done: () => void): void {
    this.#send(Buffer.concat(chunks.map(({ chunk }) => chunk)), done);
  }

  /** An error also ends the inner connection, which is handled there. */
  #send(bytes: Buffer, done: () => void): void {
    this.#inner.write(bytes, (error) => {
      if (!error) done();
    });
  }

  override _final(done: () => void): void {
    this.#inner.end(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#inner.destroy();
    done(error);
  }
}

const waiting: (() => void)[] = [];

/** Calls the functions in order, for at most BATCH_MS in each iteration of the event loop. */
function queueCall(call: () => void): void {
  if (waiting.push(call) === 1) setImmediate(callNext);
}

function callNext(): void {
  const end = performance.now() + BATCH_MS;
  let count = 0;
  while (count < waiting.length && performance.now() < end) waiting[count++]?.();
  waiting.splice(0, count);
  if (waiting.length > 0) setImmediate(callNext);
}
