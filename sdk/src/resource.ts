import { GuestFormsError } from "./errors.js";
import { type ApiPromise, send, type WithResponse } from "./promise.js";
import type { Call, RequestOptions, Transport } from "./transport.js";

/** Sends a call that answers with one resource; `prepare` checks the input, so that its faults reject the promise. */
export const one = <T>(
  transport: Transport,
  prepare: () => Omit<Call, "accepts">,
  options?: RequestOptions,
): ApiPromise<T> =>
  send(async () => {
    const accepts = (body: Record<string, unknown>) => typeof body.id === "string";
    return (await transport.send({ ...prepare(), accepts }, options)) as WithResponse<T>;
  });

/** The path of one resource. */
export function pathOf(collection: string, id: string): string {
  // "." and ".." cannot be escaped: every URL parser takes them for a step in the path.
  if (typeof id !== "string" || !id.trim() || id === "." || id === "..") {
    throw new GuestFormsError(`An id is needed for ${collection}/{id}, got ${JSON.stringify(id)}`);
  }
  return `${collection}/${encodeURIComponent(id)}`;
}
