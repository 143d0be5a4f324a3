import { randomUUID } from "node:crypto";
import { nanoid } from "nanoid";
import { audit } from "../audit.js";
import type { InAppContext, ScopedContext } from "../context.js";
import { type Keys, open, seal } from "../secrets.js";
import {
  bindKey,
  type CanonicalBody,
  type CreateRequest,
  canonicalBody,
  findEarlierCreates,
  findOriginal,
  fingerprints,
  releaseFingerprint,
  replay,
  serializeEqualCreates,
} from "./idempotency.js";
import { type FormState, insertForm, lockForm, lockListing, updateForm } from "./queries.js";
import { checkListingRules, checkPartyRules, checkStatusOrder, isCorrection, type Party } from "./rules.js";
import type { FormBody, FormV1 } from "./schema.js";

// The only way to write a form, for API keys and the in-app flow alike. Each of the three functions is one transaction of
// the same steps: load under scope and lock, answer a repeat (create only), check the listing's rules, write (a create
// also enqueues the notification), audit. What they send with Promise.all travels together and runs in that order.

/** Creates a form, or answers with the form of an equal earlier create (`replayed`), which changes nothing. */
export function createForm(
  context: ScopedContext,
  input: FormBody,
  key: string | undefined,
): Promise<{ form: FormV1; replayed: boolean }> {
  const { principal, services, signal } = context;
  const body = canonicalBody(input);
  const request: CreateRequest = {
    holderId: principal.userId,
    key,
    body,
    fingerprints: fingerprints(services.keyring.fingerprint, body),
  };
  return services.db.sqlTransaction(async (tx) => {
    const [, listing, earlier] = await Promise.all([
      serializeEqualCreates(tx, request),
      lockListing(tx, principal, body.listingId),
      findEarlierCreates(tx, request),
    ]);
    const repeated = findOriginal(request, earlier);
    if (repeated) return { form: await replay(tx, request, repeated), replayed: true };

    checkListingRules(listing, body, { isNewOnListing: true });

    const id = randomUUID();
    const answer = {
      id,
      publicId: nanoid(),
      status: "SENT",
      numberOfVehicles: null,
      numberOfPets: null,
      ...stayOf(body),
    };
    const guestEmail = body.guestEmail ? seal(services.keyring.email, body.guestEmail, id) : null;
    const [fingerprint] = request.fingerprints;
    const { byBody } = earlier;
    const [, form] = await Promise.all([
      byBody && releaseFingerprint(tx, byBody),
      insertForm(
        tx,
        { ...answer, guestEmail, fingerprint },
        { holderId: request.holderId, answer, correlationId: context.correlationId },
      ),
      key !== undefined && bindKey(tx, request.holderId, key, id),
      audit(tx, context, "form.created", id, { listingId: listing.id }),
    ]);
    return { form, replayed: false };
  }, signal);
}

/** Replaces a form's stay, or moves the form to another listing in scope. An absent address keeps the stored one. */
export function updateFormStay(context: ScopedContext, id: string, input: FormBody): Promise<FormV1> {
  const { principal, services, signal } = context;
  const { keyring, db } = services;
  const body = canonicalBody(input);
  return db.sqlTransaction(async (tx) => {
    const stored = await lockForm(tx, principal, id);
    const origin = await lockListing(tx, principal, stored.listingId, "form");
    const isNewOnListing = body.listingId !== origin.id;
    const listing = isNewOnListing ? await lockListing(tx, principal, body.listingId) : origin;

    checkListingRules(listing, body, { isNewOnListing, party: stored });

    const guestEmail = body.guestEmail ?? openStoredEmail(keyring.email, stored.guestEmail, id);
    const [fingerprint] = fingerprints(keyring.fingerprint, { ...body, guestEmail });
    const [form] = await Promise.all([
      updateForm(tx, id, {
        ...stored,
        ...stayOf(body),
        // Sealed again, so that an address moves to the newest secret; one that cannot be opened stays as it is.
        guestEmail: guestEmail ? seal(keyring.email, guestEmail, id) : stored.guestEmail,
        fingerprint,
      }),
      audit(tx, context, "form.updated", id, {
        listingId: listing.id,
        ...(isNewOnListing && { movedFrom: origin.id }),
      }),
    ]);
    return form;
  }, signal);
}

/** What only the application sets on a form; absent fields stay as they are, null unsets. */
export interface InAppChange extends Partial<Party> {
  status?: string;
}

/**
 * Sets a form's status or party. A user is held to their scope and to the order of the statuses; the operator may set
 * any form to any status.
 */
export function changeForm(context: InAppContext, id: string, change: InAppChange): Promise<FormV1> {
  const { principal, services, signal } = context;
  return services.db.sqlTransaction(async (tx) => {
    const stored = await lockForm(tx, principal, id);
    const listing = await lockListing(tx, principal, stored.listingId, "form");

    const { status = stored.status, ...party } = change;
    checkPartyRules(listing, party);
    if (principal.kind !== "operator") checkStatusOrder(stored.status, status);

    const fields = Object.keys(party);
    const [form] = await Promise.all([
      updateForm(tx, id, { ...stored, ...change }),
      status !== stored.status &&
        audit(tx, context, "form.status_set", id, {
          from: stored.status,
          to: status,
          correction: isCorrection(stored.status, status),
        }),
      fields.length > 0 && audit(tx, context, "form.party_set", id, { fields }),
    ]);
    return form;
  }, signal);
}

const stayOf = (body: CanonicalBody) =>
  ({
    listingId: body.listingId,
    checkInDate: new Date(body.checkInDate).toISOString(),
    checkOutDate: new Date(body.checkOutDate).toISOString(),
    numberOfGuests: body.numberOfGuests,
  }) satisfies Partial<FormState>;

/** The stored address; null if there is none, or none of the secrets opens it. */
function openStoredEmail(keys: Keys, sealed: Uint8Array | null, id: string): string | null {
  try {
    return sealed && open(keys, sealed, id);
  } catch {
    return null;
  }
}
