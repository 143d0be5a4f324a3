import type { ResponseHeaders } from "./errors.js";
import { type PlatformResponse, runtime } from "./runtime.js";

/**
 * A result with the correlation id of its response: quote it to the operator of the service. The property is not
 * enumerable, so JSON, `Object.keys` and copies (`{ ...form }`) do not have it.
 */
export type WithCorrelationId<T> = T extends object
  ? T & {
      /** Correlation id (UUID) of the response; undefined on copies, and if a proxy removed the header. */
      readonly _correlationId?: string | undefined;
    }
  : T;

/** A call's result together with its HTTP response. */
export interface WithResponse<T> {
  /** The result itself. */
  data: T;
  /** Status and headers of the response. */
  response: {
    /** HTTP status: 201 for a create, 200 for everything else. */
    status: number;
    /** Headers by lower-case name. */
    headers: ResponseHeaders;
  };
  /**
   * Whether this is the result of an earlier, equal create (`Idempotent-Replayed`). Also true if the SDK itself had
   * tried before and the response was lost. Always false for the other operations.
   */
  replayed: boolean;
}

/** What a call ends with: its result, and the body it was read from. */
export interface Answer<T> {
  result: WithResponse<T>;
  text: string;
}

let start: <T>(promise: ApiPromise<T>) => Promise<Answer<T>>;

/** Promise of a call's result; `withResponse()` and `asResponse()` give the HTTP response. */
export class ApiPromise<T> implements Promise<T> {
  #call: () => Promise<Answer<T>>;
  #answer: Promise<Answer<T>> | undefined;
  static {
    start = (promise) => promise.#send();
  }

  /** @internal */
  constructor(call: () => Promise<Answer<T>>) {
    this.#call = call;
  }

  /** Sends the call, once. */
  #send(): Promise<Answer<T>> {
    this.#answer ??= this.#call();
    return this.#answer;
  }

  get [Symbol.toStringTag](): string {
    return "ApiPromise";
  }

  /**
   * The same call's result with status, headers and whether it was replayed. Sends nothing again.
   *
   * @example
   * ```ts
   * const { data, response, replayed } = await client.forms.create(input).withResponse();
   * console.log(data.id, response.status, response.headers.location, replayed);
   * ```
   */
  async withResponse(): Promise<WithResponse<T>> {
    return (await this.#send()).result;
  }

  /**
   * The same call's response as a `Response` of the platform, with a body that can be read once. Sends nothing again;
   * rejects as the call does. The SDK reads the body first, so retries and the timeout cover it, and `url` is empty.
   *
   * @example
   * ```ts
   * const response = await client.forms.retrieve(id).asResponse();
   * console.log(response.status, await response.text());
   * ```
   */
  async asResponse(): Promise<PlatformResponse> {
    const { text, result } = await this.#send();
    return new runtime.Response(text || null, result.response);
  }

  // biome-ignore lint/suspicious/noThenProperty: what a call returns is awaited like a promise, so it must have `then`
  then<A = T, B = never>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#send()
      .then(({ result }) => result.data)
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
export function send<T>(call: () => Promise<Answer<T>>): ApiPromise<T> {
  const promise = new ApiPromise(call);
  // Unlike then(), this leaves no second promise behind whose rejection nobody could handle.
  start(promise);
  return promise;
}

/** Puts the correlation id of the response on a result. */
export function trace<T>(data: T, { headers }: { headers: ResponseHeaders }): T {
  if (typeof data === "object" && data) {
    const value = headers["x-correlation-id"];
    Object.defineProperty(data, "_correlationId", { value, enumerable: false, configurable: true });
  }
  return data;
}
