import { randomUUID } from "node:crypto";
import { nanoid } from "nanoid";
import type { InAppContext, ScopedContext } from "../access/context.js";
import { audit } from "../audit.js";
import { seal, tryOpen } from "../secrets/secrets.js";
import { canonicalBody, stayOf } from "./body.js";
import {
  bindKey,
  type CreateRequest,
  findEarlierCreates,
  findOriginal,
  fingerprints,
  releaseFingerprint,
  replay,
} from "./idempotency.js";
import { insertForm, lockForm, lockListing, updateForm } from "./queries.js";
import {
  checkExpectedStatus,
  checkListingRules,
  checkPartyRules,
  checkStatusOrder,
  isCorrection,
  type Party,
} from "./rules.js";
import type { FormV1, ParsedBody } from "./schema.js";

// The only way to create or update a form, for API keys, users and the operator. Each function is one transaction with the
// same steps: load in scope and lock, replay (create only), check the listing's rules, write (a create also enqueues the
// notification), audit, commit.

/** Creates a form, or replays an earlier equal create (`replayed`), which changes nothing. */
export function createForm(
  context: ScopedContext,
  input: ParsedBody,
  key: string | undefined,
): Promise<{ form: FormV1; replayed: boolean }> {
  const { principal, services, signal } = context;
  const body = canonicalBody(input);
  const request: CreateRequest = {
    holderId: principal.userId,
    key,
    checkOutDate: body.checkOutDate,
    fingerprints: fingerprints(services.keyring.fingerprint, body),
  };
  return services.db.sqlTransaction(async (tx) => {
    const [listing, earlier] = await Promise.all([
      lockListing(tx, principal, body.listingId),
      findEarlierCreates(tx, request),
    ]);
    const original = findOriginal(request, earlier, services.settings);
    if (original) return { form: await replay(tx, request, original), replayed: true };

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
    const creation = {
      holderId: request.holderId,
      answer,
      correlationId: context.correlationId,
      secretId: services.keyring.ids[0],
    };
    const [, form] = await tx.commit(
      byBody && releaseFingerprint(tx, byBody),
      insertForm(tx, { ...answer, guestEmail, fingerprint }, creation),
      bindKey(tx, request, id),
      audit(tx, context, "form.created", id, { listingId: listing.id }),
    );
    return { form, replayed: false };
  }, signal);
}

export function updateFormStay(context: ScopedContext, id: string, input: ParsedBody): Promise<FormV1> {
  const { principal, services, signal } = context;
  const { keyring, db } = services;
  const body = canonicalBody(input);
  return db.sqlTransaction(async (tx) => {
    const stored = await lockForm(tx, principal, id);
    const origin = await lockListing(tx, principal, stored.listingId, "form");
    const isNewOnListing = body.listingId !== origin.id;
    const listing = isNewOnListing ? await lockListing(tx, principal, body.listingId) : origin;

    checkListingRules(listing, body, { isNewOnListing, party: stored });

    const guestEmail =
      body.guestEmail ?? (stored.guestEmail && tryOpen(keyring.email, stored.guestEmail, id)?.text) ?? null;
    const [fingerprint] = fingerprints(keyring.fingerprint, { ...body, guestEmail });
    const [form] = await tx.commit(
      updateForm(tx, id, {
        ...stored,
        ...stayOf(body),
        // Encrypt with the newest secret. An address that cannot be decrypted is kept as it is.
        guestEmail: guestEmail ? seal(keyring.email, guestEmail, id) : stored.guestEmail,
        fingerprint,
      }),
      audit(tx, context, "form.updated", id, {
        listingId: listing.id,
        ...(isNewOnListing && { movedFrom: origin.id }),
      }),
    );
    return form;
  }, signal);
}

/** Fields that the public API cannot set. Absent fields are unchanged; null unsets. */
export interface InAppChange extends Partial<Party> {
  status?: string;
}

/** Sets a form's status or party, only if its status is `from`. */
export function changeForm(context: InAppContext, id: string, change: InAppChange, from?: string): Promise<FormV1> {
  const { principal, services, signal } = context;
  return services.db.sqlTransaction(async (tx) => {
    const stored = await lockForm(tx, principal, id);
    const listing = await lockListing(tx, principal, stored.listingId, "form");

    checkExpectedStatus(stored.status, from);
    const { status = stored.status, ...party } = change;
    checkPartyRules(listing, party);
    if (principal.kind !== "operator") checkStatusOrder(stored.status, status);

    const fields = Object.keys(party);
    const [form] = await tx.commit(
      updateForm(tx, id, { ...stored, ...change }),
      status !== stored.status &&
        audit(tx, context, "form.status_set", id, {
          from: stored.status,
          to: status,
          correction: isCorrection(stored.status, status),
        }),
      fields.length > 0 && audit(tx, context, "form.party_set", id, { fields }),
    );
    return form;
  }, signal);
}
