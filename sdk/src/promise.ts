import type { ResponseHeaders } from "./errors.js";

/** A call's result together with its HTTP answer. */
export interface WithResponse<T> {
  data: T;
  response: {
    /** HTTP status: 201 for a create, 200 for all else. */
    status: number;
    /** Headers by lower-case name. */
    headers: ResponseHeaders;
  };
  /**
   * Whether the service answered with the result of an earlier equal create (`Idempotent-Replayed`). Also true where
   * the SDK itself had tried before and the answer was lost. Always false for the other operations.
   */
  replayed: boolean;
}

/** The promise of a call's result; {@link ApiPromise.withResponse} gives the HTTP answer too. */
export class ApiPromise<T> implements Promise<T> {
  #start: () => Promise<WithResponse<T>>;
  #answer: Promise<WithResponse<T>> | undefined;

  /** @internal */
  constructor(start: () => Promise<WithResponse<T>>) {
    this.#start = start;
  }

  get [Symbol.toStringTag](): string {
    return "ApiPromise";
  }

  /** The same call's result with status, headers and whether it was replayed; sends nothing again. */
  withResponse(): Promise<WithResponse<T>> {
    this.#answer ??= this.#start();
    return this.#answer;
  }

  // biome-ignore lint/suspicious/noThenProperty: what a call returns is awaited like a promise, so it must have `then`
  then<A = T, B = never>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.withResponse()
      .then((answer) => answer.data)
      .then(onFulfilled, onRejected);
  }

  catch<B = never>(onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null): Promise<T | B> {
    return this.then(undefined, onRejected);
  }

  finally(onFinally?: (() => void) | null): Promise<T> {
    return this.then().finally(onFinally);
  }
}

/** Sends at once, as a promise of a call is expected to. */
export function send<T>(start: () => Promise<WithResponse<T>>): ApiPromise<T> {
  const promise = new ApiPromise(start);
  // Unlike then(), this leaves no second promise behind whose rejection nobody could handle.
  promise.withResponse();
  return promise;
}
