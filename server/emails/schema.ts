import { z } from "zod";
import { EMAIL_STATES, UNDELIVERED_EMAIL_STATES } from "../constants.js";
import { expected } from "../errors.js";
import { cursor, limit, nextCursor } from "../resources/paging.js";
import { reference, text } from "../texts.js";
import { instantOut, languageTag, resourceId } from "../values.js";

export const email = z.object({
  id: z.string(),
  /** Null: it is about `endpointId`, a webhook endpoint that was disabled. */
  formId: z.string().nullable(),
  /** Of the form, like the next. */
  listingId: z.string().nullable(),
  checkInDate: instantOut.nullable(),
  endpointId: z.string().nullable(),
  state: z.enum(EMAIL_STATES),
  attempts: z.int(),
  lastError: z.string().nullable(),
  /** Start of the last attempt or its last sign of life; null before the first one. */
  lastAttemptAt: instantOut.nullable(),
  /** When the next attempt is due; null while it is being sent, and once it has ended. */
  runAt: instantOut.nullable(),
  /** When the mail server accepted it. */
  sentAt: instantOut.nullable(),
  /** Message-ID of its attempts, to find it in the mail server's logs; null before the first one. */
  messageId: z.string().nullable(),
  /** The mail server's answer, if it accepted it. */
  reply: z.string().nullable(),
});

export type Email = z.infer<typeof email>;

export const listInput = z.strictObject({
  limit,
  cursor,
  state: z.enum(EMAIL_STATES, { error: expected(`one of ${EMAIL_STATES.join(", ")}`) }).optional(),
  formId: resourceId.optional(),
});

export const emailPage = z.object({ items: z.array(email), nextCursor });

/** A malformed id is RESOURCE_NOT_FOUND. */
export const emailIdInput = z.strictObject({ id: z.string({ error: expected("a string") }) });

export const retriedEmails = z.object({ retried: z.int() });

export const dismissedEmails = z.object({ dismissed: z.int() });

/** `email`: its Message-ID, or the guest's address, which stands for the last invitation to each form that has it. */
export const bouncedInput = z.strictObject({ email: reference, reason: text(300).optional() });

/** `unreadable`: addresses that no secret can decrypt, so it is unknown whose they are. */
export const bouncedEmails = z.object({ emails: z.array(email), unreadable: z.int() });

export const sendInput = z.strictObject({ formId: resourceId });

export const previewInput = z.strictObject({ formId: resourceId, language: languageTag.optional() });

/** The invitation as a mail client gets it, in the language of its templates. */
export const invitation = z.object({ language: z.string(), subject: z.string(), text: z.string(), html: z.string() });

export type Invitation = z.infer<typeof invitation>;

export const emailCounts = z.record(z.enum(UNDELIVERED_EMAIL_STATES), z.int());
