import type { ResponseHeaders } from "./errors.js";
import { type PlatformResponse, runtime } from "./runtime.js";

/**
 * A result with what its response says besides. The properties are not enumerable, so JSON, `Object.keys` and copies
 * (`{ ...form }`) omit them.
 */
export type WithCorrelationId<T> = T extends object
  ? T & {
      /**
       * Correlation id (UUID) of the response: quote it to the operator of the service. Undefined on copies, and if a proxy
       * removed the header.
       */
      readonly _correlationId?: string | undefined;
      /**
       * Whether this is a replay: the form of an earlier, equal create, as it was created. Undefined on copies. If it may be
       * of another booking, give each booking its own `externalId`.
       */
      readonly _replayed?: boolean | undefined;
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
   * Whether this is a replay: the result of an earlier, equal create (`Idempotent-Replayed`). Also true if the SDK
   * retried a create because its response was lost. Always false for other operations.
   */
  replayed: boolean;
}

/** A parsed success response, and its body as received. */
export interface ParsedResponse<T> {
  result: WithResponse<T>;
  text: string;
}

/** Promise of a call's result; `withResponse()` and `asResponse()` return the HTTP response. */
export class ApiPromise<T> implements Promise<T> {
  #call: () => Promise<ParsedResponse<T>>;
  #response: Promise<ParsedResponse<T>> | undefined;

  /** @internal */
  constructor(call: () => Promise<ParsedResponse<T>>, isSentNow = false) {
    this.#call = call;
    // Not then(): the promise it returns would cause an unhandled rejection.
    if (isSentNow) this.#send();
  }

  /** Sends the call once, however often it is called. */
  #send(): Promise<ParsedResponse<T>> {
    this.#response ??= this.#call();
    return this.#response;
  }

  get [Symbol.toStringTag](): string {
    return "ApiPromise";
  }

  /**
   * Resolves to the result with its status, its headers and whether it was replayed. Does not send the request again.
   *
   * @throws the errors of the call.
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
   * Resolves to the platform's `Response`, whose body can be read once. Does not send the request again. The SDK has
   * already read the body, so retries and the timeout cover it; `url` is empty.
   *
   * @throws the errors of the call.
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

  // biome-ignore lint/suspicious/noThenProperty: calls return a promise, so the class must implement `then`
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

/** Adds to `data` what the response of a result says besides. */
export function attachResponse<T>(data: T, { response, replayed }: Omit<WithResponse<unknown>, "data">): T {
  if (typeof data === "object" && data) {
    const values = { _correlationId: response.headers["x-correlation-id"], _replayed: replayed };
    for (const [name, value] of Object.entries(values)) {
      Object.defineProperty(data, name, { value, enumerable: false, configurable: true });
    }
  }
  return data;
}
