import { randomUUID } from "node:crypto";
import { nanoid } from "nanoid";
import type { Call, InAppContext, ScopedContext } from "../access/context.js";
import { seal, tryOpen } from "../encryption.js";
import { recordEvent } from "../outbox/events.js";
import { omitUndefined } from "../values.js";
import {
  bindKey,
  type CreateRequest,
  canonicalBody,
  findEarlierCreates,
  findOriginal,
  fingerprints,
  releaseFingerprint,
  replay,
  stayOf,
} from "./idempotency.js";
import { insertForm, lockForm, lockListing, updateForm } from "./queries.js";
import {
  checkExpectedStatus,
  checkKnownStatus,
  checkListingRules,
  checkPartyRules,
  checkStatusOrder,
  isCorrection,
  type Party,
} from "./rules.js";
import {
  type createInput,
  type FormV1,
  readIdempotencyKey,
  type setPartyInput,
  type setStatusInput,
  type updateInput,
} from "./schema.js";

// The only way to create or update a form, for API keys, users and the operator. Each function is one transaction with the
// same steps: load in scope and lock, replay (create only), check the listing's rules, write (a create also enqueues the
// invitation), audit, commit.

/** Creates a form, or replays an earlier equal create, which changes nothing. */
export function createForm({ ctx, input }: Call<typeof createInput, ScopedContext>): Promise<FormV1> {
  const { principal, services, signal } = ctx;
  const key = readIdempotencyKey(ctx);
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
    ctx.outcome.replayed = original !== undefined;
    if (original) return replay(tx, request, original);

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
      correlationId: ctx.correlationId,
      secretId: services.keyring.ids[0],
    };
    const [, form] = await tx.commit(
      byBody && releaseFingerprint(tx, byBody),
      insertForm(tx, { ...answer, guestEmail, fingerprint }, creation),
      bindKey(tx, request, id),
      recordEvent(tx, ctx, {
        type: "form.created",
        action: "form.created",
        formId: id,
        listings: [listing],
        details: { listingId: listing.id },
      }),
    );
    return form;
  }, signal);
}

export function updateFormStay({ ctx, input }: Call<typeof updateInput, ScopedContext>): Promise<FormV1> {
  const { principal, services, signal } = ctx;
  const { keyring, db } = services;
  const { id } = input;
  const body = canonicalBody(input);
  return db.sqlTransaction(async (tx) => {
    const stored = await lockForm(tx, principal, id);
    const origin = await lockListing(tx, principal, stored.listingId, "form");
    const isNewOnListing = body.listingId !== origin.id;
    const listing = isNewOnListing ? await lockListing(tx, principal, body.listingId) : origin;

    checkListingRules(listing, body, { isNewOnListing, party: stored });

    const stay = stayOf(body);
    const storedEmail = (stored.guestEmail && tryOpen(keyring.email, stored.guestEmail, id)?.text) ?? null;
    const guestEmail = body.guestEmail ?? storedEmail;
    const [fingerprint] = fingerprints(keyring.fingerprint, { ...body, guestEmail });
    const [form] = await tx.commit(
      updateForm(tx, id, {
        ...stored,
        ...stay,
        // Encrypt with the newest secret. An address that cannot be decrypted is kept as it is.
        guestEmail: guestEmail ? seal(keyring.email, guestEmail, id) : stored.guestEmail,
        fingerprint,
      }),
      recordEvent(tx, ctx, {
        type: isNewOnListing ? "form.moved" : "form.updated",
        action: "form.updated",
        formId: id,
        listings: isNewOnListing ? [listing, origin] : [listing],
        details: {
          listingId: listing.id,
          ...(isNewOnListing && { movedFrom: origin.id }),
          fields: changedFields({ ...stored, guestEmail: storedEmail }, { ...stay, guestEmail }),
        },
      }),
    );
    return form;
  }, signal);
}

/** The names of the fields that an update has changed. */
const changedFields = <Fields extends object>(before: Fields, after: Fields) =>
  Object.keys(after).filter((field) => before[field as keyof Fields] !== after[field as keyof Fields]);

/** The operator may set any status, and with `force` one that this version does not know. */
export function setStatus({ ctx, input }: Call<typeof setStatusInput, InAppContext>): Promise<FormV1> {
  const { id, status, from, force } = input;
  if (ctx.principal.kind === "operator" && !force) checkKnownStatus(status);
  return changeForm(ctx, id, { status }, from);
}

export function setParty({ ctx, input: { id, ...party } }: Call<typeof setPartyInput, InAppContext>): Promise<FormV1> {
  return changeForm(ctx, id, omitUndefined(party));
}

/** Fields that the public API cannot set. Absent fields are unchanged; null unsets. */
interface InAppChange extends Partial<Party> {
  status?: string;
}

/** Sets a form's status or party, only if its status is `from`. */
function changeForm(ctx: InAppContext, id: string, change: InAppChange, from?: string): Promise<FormV1> {
  const { principal, services, signal } = ctx;
  return services.db.sqlTransaction(async (tx) => {
    const stored = await lockForm(tx, principal, id);
    const listing = await lockListing(tx, principal, stored.listingId, "form");

    checkExpectedStatus(stored.status, from);
    const { status = stored.status, ...party } = change;
    checkPartyRules(listing, party);
    if (principal.kind !== "operator") checkStatusOrder(stored.status, status);

    const fields = changedFields<Partial<Party>>(stored, party);
    const subject = { formId: id, listings: [listing] };
    const [form] = await tx.commit(
      updateForm(tx, id, { ...stored, ...change }),
      status !== stored.status &&
        recordEvent(tx, ctx, {
          type: "form.status_changed",
          action: "form.status_set",
          ...subject,
          details: { from: stored.status, to: status, correction: isCorrection(stored.status, status) },
        }),
      fields.length > 0 &&
        recordEvent(tx, ctx, {
          type: "form.party_changed",
          action: "form.party_set",
          ...subject,
          details: { fields },
        }),
    );
    return form;
  }, signal);
}
