export {
  ApiError,
  ForbiddenError,
  IdempotencyKeyReusedError,
  InternalError,
  InvalidCursorError,
  PayloadTooLargeError,
  RateLimitedError,
  ResourceNotFoundError,
  UnauthenticatedError,
  ValidationError,
} from "./api-errors.js";
export type { ApiKey } from "./api-key.js";
export type { FormChanges } from "./changes.js";
export { type ClientOptions, type ClientOverrides, GuestForms, type RawRequestOptions } from "./client.js";
export {
  AbortError,
  ConnectionError,
  type ErrorCode,
  type ErrorDetails,
  type FieldError,
  GuestFormsError,
  type ResponseHeaders,
  TimeoutError,
} from "./errors.js";
export { type CreateOptions, type FormListParams, type Forms, isKnownStatus } from "./forms.js";
export { instantIn } from "./instant.js";
export type { Listings } from "./listings.js";
export type { Logger, LogLevel } from "./log.js";
export type { ArrayOptions, ListParams, Page, PagePromise } from "./page.js";
export type { ApiPromise, WithCorrelationId, WithResponse } from "./promise.js";
export type {
  AbortSignalLike,
  Fetch,
  FetchInit,
  FetchOptions,
  FetchResponse,
  PlatformAbortSignal,
  PlatformResponse,
} from "./runtime.js";
export * from "./schema.js";
export type { RequestOptions } from "./transport.js";
export { VERSION } from "./version.js";
