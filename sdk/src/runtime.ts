/**
 * The few platform globals the SDK uses, typed structurally: consumers need neither the "dom" library nor
 * `@types/node`, and what a runtime lacks is seen here.
 */

/** What the SDK needs of an `AbortSignal`; the platform's own fits. */
export interface AbortSignalLike {
  /** Whether it was aborted. */
  readonly aborted: boolean;
  /** Why it was aborted. */
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
   * Calls `listener` no more.
   *
   * @example
   * ```ts
   * signal.removeEventListener("abort", listener);
   * ```
   */
  removeEventListener(type: "abort", listener: () => void): void;
}

/** The `AbortSignal` of the consumer's own type libraries where they have one, so that their `fetch` fits {@link Fetch}. */
export type PlatformAbortSignal = typeof globalThis extends { AbortSignal: { prototype: infer Signal } }
  ? Signal
  : AbortSignalLike;

/** What the SDK passes to `fetch` as its second argument. */
export interface FetchInit {
  /** `GET`, `POST`, `PUT` … */
  method: string;
  /** Request headers by lower-case name, the key among them. */
  headers: Record<string, string>;
  /** The JSON body, if any. */
  body: string | null;
  /** Redirects are not followed: the key would go along. */
  redirect: "manual";
  /** Aborts at the call's timeout and when its own signal does. */
  signal: PlatformAbortSignal;
}

/** Options of the platform's `fetch`, except those that the SDK sets: `dispatcher`, `keepalive`, `credentials` … */
export type FetchOptions = { [Name in keyof FetchInit]?: never } & { [option: string]: unknown };

/** What the SDK reads of the `Response` that `fetch` resolves to. */
export interface FetchResponse {
  /** HTTP status; 0 for a redirect that a browser did not follow. */
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
  /**
   * The body as text.
   *
   * @example
   * ```ts
   * console.log(await response.text());
   * ```
   */
  text(): Promise<string>;
}

/** The `Response` of the consumer's own type libraries where they have one. */
export type PlatformResponse = typeof globalThis extends { Response: { prototype: infer Whole } }
  ? Whole
  : FetchResponse;

/** A `fetch`: the platform's own, or anything that behaves like it. */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchResponse>;

interface Runtime {
  fetch: Fetch;
  process?: { env?: Record<string, string | undefined> };
  navigator?: { userAgent?: string };
  crypto: { randomUUID?(): string; getRandomValues(bytes: Uint8Array): Uint8Array };
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
  setTimeout(run: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
}

/** `globalThis`, read anew at each use, so that a runtime's or a test's later changes count. */
export const runtime = globalThis as unknown as Runtime;

/** Looked up at each call, and called as `globalThis`'s own: browsers refuse it as another object's method. */
export const platformFetch: Fetch = (url, init) => runtime.fetch(url, init);

/** An environment variable; undefined in runtimes that have none, or that refuse to show it (Deno). */
export function env(name: string): string | undefined {
  try {
    return runtime.process?.env?.[name];
  } catch {
    return undefined;
  }
}

/** Browsers, their workers included: everywhere else `navigator.userAgent` is absent or names the runtime. */
export const inBrowser = (): boolean => /^Mozilla\//.test(runtime.navigator?.userAgent ?? "");

/** A random UUID; `randomUUID` is missing on pages that were not served over HTTPS. */
export function uuid(): string {
  const { crypto } = runtime;
  if (crypto.randomUUID) return crypto.randomUUID();
  const hex = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte, i) =>
    (i === 6 ? (byte & 0x0f) | 0x40 : i === 8 ? (byte & 0x3f) | 0x80 : byte).toString(16).padStart(2, "0"),
  ).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
