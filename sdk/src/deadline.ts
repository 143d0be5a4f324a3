import { type AbortSignalLike, runtime } from "./runtime.js";

/** The longest delay a timer can hold; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** One total deadline and one abort signal over all tries of a call. */
export class Deadline {
  readonly #controller = new runtime.AbortController();
  readonly #ends: number;
  readonly #timer: unknown;
  readonly #stopped: Promise<never>;
  readonly #outer: AbortSignalLike | undefined;
  readonly #onAbort: () => void;

  constructor(ms: number, outer: AbortSignalLike | undefined) {
    const { signal } = this.#controller;
    this.#stopped = new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    this.#stopped.catch(() => {});
    this.#ends = Date.now() + ms;
    if (ms <= MAX_TIMER_MS) this.#timer = runtime.setTimeout(() => this.#controller.abort(this), ms);
    this.#outer = outer;
    this.#onAbort = () => this.#controller.abort(outer?.reason);
    if (outer?.aborted) this.#onAbort();
    else outer?.addEventListener("abort", this.#onAbort);
  }

  get signal(): AbortSignalLike {
    return this.#controller.signal;
  }

  /** Throws if the deadline or the caller stopped the call. */
  throwIfStopped(): void {
    if (this.signal.aborted) throw this.signal.reason;
  }

  /** Whether it is the deadline that stopped the call, and not the caller. */
  get expired(): boolean {
    return this.signal.reason === this;
  }

  /** Milliseconds left. */
  left(): number {
    return this.#ends - Date.now();
  }

  /** Waits for `work`, but not beyond the deadline or the caller's abort, even if `work` knows nothing of either. */
  race<T>(work: Promise<T>): Promise<T> {
    return Promise.race([this.#stopped, work]);
  }

  /** Rejects as {@link Deadline.race} does where it is stopped meanwhile. */
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

  /** Leaves no timer and no listener behind. */
  close(): void {
    runtime.clearTimeout(this.#timer);
    this.#outer?.removeEventListener("abort", this.#onAbort);
  }
}
