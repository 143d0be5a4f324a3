/**
 * The few platform globals the SDK uses, typed structurally: consumers need neither the "dom" library nor
 * `@types/node`, and what a runtime lacks is seen here.
 */

/** What the SDK needs of an `AbortSignal`; the platform's own fits. */
export interface AbortSignalLike {
  readonly aborted: boolean;
  readonly reason?: unknown;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

/** The `AbortSignal` of the consumer's own type libraries where they have one, so that their `fetch` fits {@link Fetch}. */
export type PlatformAbortSignal = typeof globalThis extends { AbortSignal: { prototype: infer Signal } }
  ? Signal
  : AbortSignalLike;

/** What the SDK passes to `fetch` as its second argument. */
export interface FetchInit {
  method: string;
  headers: Record<string, string>;
  body: string | null;
  redirect: "manual";
  signal: PlatformAbortSignal;
}

/** What the SDK reads of the `Response` that `fetch` resolves to. */
export interface FetchResponse {
  readonly status: number;
  readonly headers: { forEach(visit: (value: string, name: string) => void): void };
  text(): Promise<string>;
}

/** A `fetch`: the platform's own, or anything that behaves like it. */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchResponse>;

interface Runtime {
  fetch: Fetch;
  process?: { env?: Record<string, string | undefined> };
  navigator?: { userAgent?: string };
  crypto: { randomUUID?(): string; getRandomValues(bytes: Uint8Array): Uint8Array };
  AbortController: new () => { readonly signal: AbortSignalLike; abort(reason?: unknown): void };
  URL: new (
    url: string,
  ) => { protocol: string; username: string; password: string; search: string; hash: string; href: string };
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
