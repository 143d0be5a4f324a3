import { type AbortSignalLike, runtime } from "./runtime.js";

/** Longest delay of `setTimeout`; a longer one fires immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The deadline and the abort signal of a call, shared by all of its attempts. */
export class Deadline {
  readonly #controller = new runtime.AbortController();
  #expiresAt = Number.POSITIVE_INFINITY;
  #timer: unknown;
  readonly #aborted: Promise<never>;
  readonly #stopListening: (() => void) | undefined;

  constructor(ms: number, callerSignal: AbortSignalLike | undefined) {
    const { signal } = this.#controller;
    this.#aborted = new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    this.#aborted.catch(() => {});
    this.restart(ms);
    const abort = () => this.#controller.abort(callerSignal?.reason);
    if (callerSignal?.aborted) abort();
    else if (callerSignal) this.#stopListening = onAbort(callerSignal, abort);
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
    this.#stopListening?.();
  }
}

const sharedListeners = new WeakMap<AbortSignalLike, { callbacks: Set<() => void>; listener: () => void }>();

/** Returns a function that removes the callback. All calls with one signal share a listener: runtimes warn of many. */
function onAbort(signal: AbortSignalLike, callback: () => void): () => void {
  let shared = sharedListeners.get(signal);
  if (!shared) {
    const callbacks = new Set<() => void>();
    shared = { callbacks, listener: () => callbacks.forEach((run) => void run()) };
    sharedListeners.set(signal, shared);
    signal.addEventListener("abort", shared.listener);
  }
  const { callbacks, listener } = shared;
  callbacks.add(callback);
  return () => {
    callbacks.delete(callback);
    if (callbacks.size > 0) return;
    sharedListeners.delete(signal);
    signal.removeEventListener("abort", listener);
  };
}
