#!/usr/bin/env node
/**
 * Creates one form and prints what to do about each possible error.
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
  // The operator of the service finds the request by this id.
  if (error instanceof GuestFormsError && error.correlationId) console.error(`correlation: ${error.correlationId}`);
  process.exitCode = 1;
}

/**
 * Subclasses come before the classes they extend.
 *
 * @param {unknown} error
 * @returns {string}
 */
function advice(error) {
  if (error instanceof UnauthenticatedError) return "The key is invalid, revoked or expired: get a new one.";
  if (error instanceof ForbiddenError) return "This key is read-only: use a read-write key.";
  if (error instanceof ResourceNotFoundError)
    return "The listing does not exist or is out of the key's scope: check the listing id.";
  if (error instanceof ValidationError) {
    return ["Correct these fields:", ...error.errors.map(({ field, issue }) => `  ${field}: ${issue}`)].join("\n");
  }
  if (error instanceof IdempotencyKeyReusedError)
    return `This idempotencyKey belongs to another form. If the booking changed, update that form. ${error.message}`;
  if (error instanceof InvalidCursorError)
    return "This cursor belongs to another list or listingId: list from the start.";
  if (error instanceof PayloadTooLargeError) return "The input is too large: send less.";
  if (error instanceof RateLimitedError) return `Too many requests: retry in ${error.retryAfter ?? 60} s.`;
  if (error instanceof InternalError) {
    return error.retryAfter
      ? `The service is unavailable: retry in ${error.retryAfter} s.`
      : "The service failed on every attempt: report the correlation id.";
  }
  if (error instanceof ApiError) {
    return error.code
      ? `Unknown error code ${error.code}: ${error.message}`
      : `The response is not from the service, but perhaps from a proxy: ${error.message}`;
  }
  if (error instanceof TimeoutError) return "The call timed out. Repeat the same call.";
  if (error instanceof ConnectionError) return `No connection: ${error.message}. Repeat the same call.`;
  if (error instanceof AbortError) return "The call was aborted. Repeat the same call.";
  if (error instanceof GuestFormsError) return `The call is invalid and was not sent: ${error.message}`;
  throw error;
}
