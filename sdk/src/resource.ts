import { GuestFormsError } from "./errors.js";
import { isObject } from "./json.js";
import { ApiPromise, attachResponse, type ParsedResponse, type WithCorrelationId } from "./promise.js";
import type { Call, RequestOptions, Transport } from "./transport.js";

export const isResource = (value: unknown): boolean => isObject(value) && typeof value.id === "string";

type Prepared = Omit<Call, "isExpected"> & Partial<Call>;

/**
 * Sends a call that returns a single result, by default an object with an `id`. `prepare` checks the input, so that
 * invalid input rejects the promise instead of throwing, and may make other calls first.
 */
export const sendOne = <T>(
  transport: Transport,
  prepare: () => Prepared | Promise<Prepared>,
  options?: RequestOptions,
): ApiPromise<WithCorrelationId<T>> =>
  new ApiPromise(async () => {
    const parsed = await transport.send({ isExpected: isResource, ...(await prepare()) }, options);
    attachResponse(parsed.result.data, parsed.result);
    return parsed as ParsedResponse<WithCorrelationId<T>>;
  }, true);

export function buildPath(collection: string, id: string): string {
  // URL parsers resolve "." and ".." as path segments, even when percent-encoded.
  if (typeof id !== "string" || !id.trim() || id === "." || id === "..") {
    throw new GuestFormsError(`${collection}/{id} requires an id, got ${JSON.stringify(id)}`);
  }
  return `${collection}/${encodeURIComponent(id)}`;
}

/** Checks the caller's Idempotency-Key, if any. */
export function checkIdempotencyKey(key: string | undefined): string | undefined {
  if (key !== undefined && !/^[ -~]{1,255}$/.test(key)) {
    throw new GuestFormsError("idempotencyKey must be 1 to 255 printable ASCII characters");
  }
  return key;
}

/** The values with every Date as ISO 8601 text. Rejects an invalid one, which JSON would turn into null. */
export function withIsoStrings<Values extends object>(values: Values) {
  const entries = Object.entries(values).map(([name, value]) => {
    // `instanceof Date` misses Dates of other realms.
    if (typeof (value as Date | undefined)?.toISOString !== "function") return [name, value];
    if (Number.isNaN(Number(value))) throw new GuestFormsError(`${name} is an invalid Date`);
    return [name, (value as Date).toISOString()];
  });
  return Object.fromEntries(entries) as { [Name in keyof Values]: Exclude<Values[Name], Date> };
}
