export { type ClientOptions, GuestForms } from "./client.js";
export {
  ApiError,
  ConnectionError,
  type ErrorCode,
  type ErrorDetails,
  type FieldError,
  ForbiddenError,
  GuestFormsError,
  IdempotencyKeyReusedError,
  InternalError,
  InvalidCursorError,
  type KnownErrorCode,
  PayloadTooLargeError,
  RateLimitedError,
  ResourceNotFoundError,
  type ResponseHeaders,
  TimeoutError,
  UnauthenticatedError,
  ValidationError,
} from "./errors.js";
export {
  type CreateOptions,
  FORM_STATUSES,
  type FormInput,
  type FormListParams,
  type FormStatus,
  type Forms,
  type FormV1,
  isKnownStatus,
  type KnownFormStatus,
} from "./forms.js";
export type { Listing, Listings } from "./listings.js";
export type { ListParams, Page, PagePromise } from "./page.js";
export type { ApiPromise, WithResponse } from "./promise.js";
export type { AbortSignalLike, Fetch, FetchInit, FetchResponse } from "./runtime.js";
export type { Logger, RequestOptions } from "./transport.js";
export { VERSION } from "./version.js";
