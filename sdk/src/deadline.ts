import { type AbortSignalLike, runtime } from "./runtime.js";

/** Longest delay of `setTimeout`; a longer one fires immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The deadline and the abort signal of a call, shared by all of its attempts. */
export class Deadline {
  readonly #controller = new runtime.AbortController();
  #expiresAt = Number.POSITIVE_INFINITY;
  #timer: unknown;
  readonly #aborted: Promise<never>;
  readonly #callerSignal: AbortSignalLike | undefined;
  readonly #onAbort: () => void;

  constructor(ms: number, callerSignal: AbortSignalLike | undefined) {
    const { signal } = this.#controller;
    this.#aborted = new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    this.#aborted.catch(() => {});
    this.restart(ms);
    this.#callerSignal = callerSignal;
    this.#onAbort = () => this.#controller.abort(callerSignal?.reason);
    if (callerSignal?.aborted) this.#onAbort();
    else callerSignal?.addEventListener("abort", this.#onAbort);
  }

  /** Sets another deadline, this many milliseconds from now. */
  restart(ms: number): void {
    runtime.clearTimeout(this.#timer);
    this.#expiresAt = Date.now() + ms;
    if (ms <= MAX_TIMER_MS) this.#timer = runtime.setTimeout(() => this.#controller.abort(this), ms);
  }

  get signal(): AbortSignalLike {
    return this.#controller.signal;
  }

  /** Throws if the deadline passed or the caller aborted. */
  throwIfAborted(): void {
    if (this.signal.aborted) throw this.signal.reason;
  }

  /** Whether the deadline ended the call, rather than the caller. */
  get expired(): boolean {
    return this.signal.reason === this;
  }

  remainingMs(): number {
    return this.#expiresAt - Date.now();
  }

  /** Rejects when the deadline passes or the caller aborts, even if `work` ignores the signal. */
  race<T>(work: Promise<T>): Promise<T> {
    return Promise.race([this.#aborted, work]);
  }

  /** Rejects like {@link Deadline.race}. */
  async sleep(ms: number): Promise<void> {
    let timer: unknown;
    try {
      await this.race(
        new Promise<void>((resolve) => {
          timer = runtime.setTimeout(resolve, Math.min(ms, MAX_TIMER_MS));
        }),
      );
    } finally {
      runtime.clearTimeout(timer);
    }
  }

  /** Removes the timer and the listener. */
  close(): void {
    runtime.clearTimeout(this.#timer);
    this.#callerSignal?.removeEventListener("abort", this.#onAbort);
  }
}
