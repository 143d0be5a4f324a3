import {
  ApiError,
  errorClassFor,
  type FieldError,
  type GuestFormsError,
  type ResponseHeaders,
  redact,
  truncate,
} from "./errors.js";
import { isObject, parseJson } from "./json.js";
import type { ParsedResponse } from "./promise.js";
import { retryAfterSeconds } from "./retry.js";
import { runtime } from "./runtime.js";

/** A page of 100 items has less than 1 MB. */
export const MAX_RESULT_BYTES = 10_000_000;

/** What a call expects of a response. */
export interface Expectation {
  method: string;
  path: string;
  /** Whether `json`, undefined if the body is not valid JSON, is a result of this operation. */
  isExpected(json: unknown, status: number): boolean;
}

export type Failure = { error: GuestFormsError; retryable: boolean };
export type Outcome = { response: ParsedResponse<unknown> } | Failure;

/** Turns a response into a result or an error. */
export function parseResponse(
  call: Expectation,
  baseUrl: string,
  status: number,
  headers: ResponseHeaders,
  { text, isWhole }: { text: string; isWhole: boolean },
  key: string,
): Outcome {
  const ok = isSuccess(status);
  const json = isWhole ? parseJson(ok ? text : redact(text, key)) : undefined;
  if (ok && call.isExpected(json, status)) {
    const replayed = headers["idempotent-replayed"] === "true";
    return { response: { result: { data: json, response: { status, headers }, replayed }, text } };
  }
  const target = baseUrl + call.path;
  const details = {
    status,
    headers,
    retryAfter: retryAfterSeconds(headers),
  };
  const retryable = status === 429 || status >= 500;
  if (!ok && isObject(json) && typeof json.code === "string" && typeof json.message === "string") {
    const { code, message, correlationId } = json;
    const errors = Array.isArray(json.errors) ? json.errors.filter(isFieldError) : [];
    const label = `${call.method} ${new runtime.URL(target).pathname}: ${status}`;
    const error = new (errorClassFor(code))(`${label} ${truncate(summarize(errors) || message, 500)}`, {
      ...details,
      code,
      correlationId: typeof correlationId === "string" ? correlationId : undefined,
      errors,
    });
    return { error, retryable };
  }
  const type = truncate(headers["content-type"] ?? "no content type", 100);
  // In browsers, a redirect that was not followed has status 0.
  const problem =
    status === 0 || (status >= 300 && status < 400)
      ? "a redirect. Redirects are not followed, to protect the key: check baseUrl"
      : ok && !isWhole
        ? `more than ${MAX_RESULT_BYTES / 1e6} MB, which no response of this service has: check baseUrl`
        : `not a response of this service (${type}): ${excerpt(redact(text, key))}`;
  const error = new ApiError(`${call.method} ${target}: ${status}, ${problem}`, details);
  // Invalid JSON in a 2xx is a body that was cut off without Content-Length: retry it like any other cut-off body.
  return { error, retryable: retryable || (ok && isWhole && json === undefined && type.includes("json")) };
}

export const isSuccess = (status: number) => status >= 200 && status < 300;

const isFieldError = (entry: unknown): entry is FieldError =>
  isObject(entry) && typeof entry.field === "string" && typeof entry.issue === "string";

/** Names the first three rejected fields. */
function summarize(errors: FieldError[]): string {
  const first = errors.slice(0, 3).map(({ field, issue }) => `${field}: ${issue}`);
  if (errors.length > 3) first.push(`and ${errors.length - 3} more`);
  return first.join("; ");
}

/** The beginning of a response body, without HTML tags. */
const excerpt = (page: string): string =>
  truncate(page.slice(0, 5_000).replace(/<(style|script)\b.*?<\/\1>|<[^>]*>/gis, " "), 200) || "an empty body";
