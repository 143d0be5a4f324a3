import { GuestFormsError } from "./errors.js";
import { type Answer, type ApiPromise, send, trace, type WithCorrelationId } from "./promise.js";
import { uuid } from "./runtime.js";
import { type Call, isObject, type RequestOptions, type Transport } from "./transport.js";

/** Sends a call with one result, by default a resource; `prepare` checks the input, so its faults reject the promise. */
export const one = <T>(
  transport: Transport,
  prepare: () => Omit<Call, "accepts"> & Partial<Call>,
  options?: RequestOptions,
): ApiPromise<WithCorrelationId<T>> =>
  send(async () => {
    const accepts = (body: unknown) => isObject(body) && typeof body.id === "string";
    const answer = await transport.send({ accepts, ...prepare() }, options);
    trace(answer.result.data, answer.result.response);
    return answer as Answer<WithCorrelationId<T>>;
  });

/** The path of one resource. */
export function pathOf(collection: string, id: string): string {
  // "." and ".." cannot be escaped: every URL parser takes them for a step in the path.
  if (typeof id !== "string" || !id.trim() || id === "." || id === "..") {
    throw new GuestFormsError(`An id is needed for ${collection}/{id}, got ${JSON.stringify(id)}`);
  }
  return `${collection}/${encodeURIComponent(id)}`;
}

/** The caller's Idempotency-Key, or a new one. */
export function idempotencyKeyOf(key: string = uuid()): string {
  if (!/^[ -~]{1,255}$/.test(key)) {
    throw new GuestFormsError("idempotencyKey must be 1 to 255 printable ASCII characters");
  }
  return key;
}
