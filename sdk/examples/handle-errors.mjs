#!/usr/bin/env node
/**
 * Creates one form, and tells what to do about each error there is.
 *
 *   export GUEST_FORMS_API_KEY=grf_rw_… GUEST_FORMS_BASE_URL=http://127.0.0.1:3000
 *   node handle-errors.mjs LISTING-ID [GUESTS]
 */
import {
  AbortError,
  ApiError,
  ConnectionError,
  ForbiddenError,
  GuestForms,
  GuestFormsError,
  IdempotencyKeyReusedError,
  InternalError,
  InvalidCursorError,
  PayloadTooLargeError,
  RateLimitedError,
  ResourceNotFoundError,
  TimeoutError,
  UnauthenticatedError,
  ValidationError,
} from "@guest-forms/sdk";

const [listingId = "", guests = "2"] = process.argv.slice(2);
const DAY = 86_400_000;

try {
  const client = new GuestForms({ timeout: 20_000 });
  const form = await client.forms.create({
    listingId,
    checkInDate: new Date(Date.now() + 30 * DAY),
    checkOutDate: new Date(Date.now() + 33 * DAY),
    numberOfGuests: Number(guests),
  });
  console.log(`Form ${form.id} is ${form.status}`);
} catch (error) {
  console.error(advice(error));
  // Whoever runs the service finds this very request by it.
  if (error instanceof GuestFormsError && error.correlationId)
    console.error(`correlation: ${error.correlationId}`);
  process.exitCode = 1;
}

/**
 * The narrower classes first: all of them are a GuestFormsError.
 *
 * @param {unknown} error
 * @returns {string}
 */
function advice(error) {
  if (error instanceof UnauthenticatedError) return "The key is wrong, revoked or expired: get a new one.";
  if (error instanceof ForbiddenError) return "This key only reads: use a read-write key.";
  if (error instanceof ResourceNotFoundError) return "No such listing, or not in the key's scope.";
  if (error instanceof ValidationError) {
    return ["Correct these fields:", ...error.errors.map(({ field, issue }) => `  ${field}: ${issue}`)].join(
      "\n",
    );
  }
  if (error instanceof IdempotencyKeyReusedError)
    return "This idempotencyKey made another form: take a new key.";
  if (error instanceof InvalidCursorError)
    return "This cursor is of another list or filter: list from the start.";
  if (error instanceof PayloadTooLargeError) return "The input is too large: shorten it.";
  if (error instanceof RateLimitedError)
    return `Too many requests: come back in ${error.retryAfter ?? 60} s.`;
  if (error instanceof InternalError) {
    return error.retryAfter
      ? `The service is away: come back in ${error.retryAfter} s.`
      : "The service failed, and again on each retry: report the correlation id.";
  }
  if (error instanceof ApiError) {
    return error.code
      ? `The service said ${error.code}, which this version does not know: ${error.message}`
      : `Something else than the service answered, a proxy perhaps: ${error.message}`;
  }
  if (error instanceof TimeoutError) return "No answer in time. Create again with the same idempotencyKey.";
  if (error instanceof ConnectionError)
    return `No connection: ${error.message}. Create again with the same idempotencyKey.`;
  if (error instanceof AbortError) return "The call was aborted. Create again with the same idempotencyKey.";
  if (error instanceof GuestFormsError) return `The call is wrong, and nothing was sent: ${error.message}`;
  throw error;
}
