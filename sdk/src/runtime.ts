/**
 * The platform globals that the SDK uses, typed structurally, so that consumers need neither the "dom" library nor
 * `@types/node`.
 */

/** The part of `AbortSignal` that the SDK uses. */
export interface AbortSignalLike {
  /** Whether the signal was aborted. */
  readonly aborted: boolean;
  /** Why the signal was aborted. */
  readonly reason?: unknown;
  /**
   * Calls `listener` when the signal is aborted.
   *
   * @example
   * ```ts
   * signal.addEventListener("abort", () => console.log(signal.reason));
   * ```
   */
  addEventListener(type: "abort", listener: () => void): void;
  /**
   * Removes a listener.
   *
   * @example
   * ```ts
   * signal.removeEventListener("abort", listener);
   * ```
   */
  removeEventListener(type: "abort", listener: () => void): void;
}

/** The consumer's own `AbortSignal` type if there is one, so that the platform's `fetch` is a {@link Fetch}. */
export type PlatformAbortSignal = typeof globalThis extends { AbortSignal: { prototype: infer Signal } }
  ? Signal
  : AbortSignalLike;

/** Second argument of `fetch`. */
export interface FetchInit {
  /** `GET`, `POST`, `PUT` … */
  method: string;
  /** Request headers by lower-case name, including the key. */
  headers: Record<string, string>;
  /** JSON body, or null. */
  body: string | null;
  /** Redirects are not followed, because the key would be sent to their target. */
  redirect: "manual";
  /** Aborted when the call's timeout passes or its `signal` is aborted. */
  signal: PlatformAbortSignal;
}

/** Options of the platform's `fetch` that the SDK does not set, such as `dispatcher`, `keepalive` and `credentials`. */
export type FetchOptions = { [Name in keyof FetchInit]?: never } & { [option: string]: unknown };

/** The part of `Response` that the SDK uses. */
export interface FetchResponse {
  /** HTTP status; 0 in browsers for a redirect that was not followed. */
  readonly status: number;
  /** Response headers. */
  readonly headers: {
    /**
     * Calls `visit` with each header.
     *
     * @example
     * ```ts
     * response.headers.forEach((value, name) => console.log(name, value));
     * ```
     */
    forEach(visit: (value: string, name: string) => void): void;
  };
  /** The body as a web stream, so that reading can stop at a maximum. Without it, `text` is called. */
  readonly body?: unknown;
  /**
   * Reads the body as text.
   *
   * @example
   * ```ts
   * console.log(await response.text());
   * ```
   */
  text(): Promise<string>;
}

/** The consumer's own `Response` type if there is one. */
export type PlatformResponse = typeof globalThis extends { Response: { prototype: infer Whole } }
  ? Whole
  : FetchResponse;

/** The platform's `fetch`, or a compatible function. */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchResponse>;

/** The part of `SubtleCrypto` that the SDK uses. */
interface Subtle {
  importKey(
    format: "raw",
    key: Uint8Array,
    algorithm: { name: string; hash: string },
    extractable: false,
    usages: readonly string[],
  ): Promise<unknown>;
  sign(algorithm: "HMAC", key: unknown, content: Uint8Array): Promise<ArrayBuffer>;
  verify(algorithm: "HMAC", key: unknown, signature: Uint8Array, content: Uint8Array): Promise<boolean>;
}

interface Runtime {
  fetch: Fetch;
  process?: { env?: Record<string, string | undefined> };
  navigator?: { userAgent?: string };
  Response: new (
    body: string | null,
    init: { status: number; headers: Readonly<Record<string, string | undefined>> },
  ) => PlatformResponse;
  console: {
    debug(...line: unknown[]): void;
    warn(...line: unknown[]): void;
    error(...line: unknown[]): void;
  };
  AbortController: new () => { readonly signal: AbortSignalLike; abort(reason?: unknown): void };
  URL: new (
    url: string,
  ) => Record<"protocol" | "username" | "password" | "search" | "hash" | "origin" | "pathname", string>;
  URLSearchParams: new (query: string) => Iterable<readonly [string, string]>;
  setTimeout(run: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
  /** Without `subtle` on pages over http. */
  crypto?: { readonly subtle: Subtle; randomUUID(): string };
  TextEncoder: new () => { encode(text: string): Uint8Array };
  TextDecoder: new () => { decode(bytes: Uint8Array): string };
  atob(base64: string): string;
  btoa(binary: string): string;
}

/** `globalThis`, read at each use so that later changes (polyfills, test stubs) take effect. */
// Cast, because the SDK compiles without the types of any one platform, so `globalThis` has none of these properties.
export const runtime = globalThis as unknown as Runtime;

/** Calls `fetch` as a method of `globalThis`: browsers throw "Illegal invocation" for any other receiver. */
export const platformFetch: Fetch = (url, init) => runtime.fetch(url, init);

/** Reads an environment variable; undefined if the runtime has none or denies access (Deno). */
export function readEnv(name: string): string | undefined {
  try {
    return runtime.process?.env?.[name];
  } catch {
    return undefined;
  }
}

/** Includes web workers. In other runtimes `navigator.userAgent` is absent or names the runtime. */
export const isBrowser = (): boolean => /^Mozilla\//.test(runtime.navigator?.userAgent ?? "");
