import { nanoid } from "nanoid";
import type { z } from "zod";
import type { Call, GuestPageContext, InAppContext, ScopedContext } from "../access/context.js";
import type { SqlTransaction } from "../database/db.js";
import { type Keyring, seal, tryOpen } from "../encryption.js";
import { endInvitations, replaceInvitation } from "../outbox/enqueue.js";
import { eraseAnswers, recordEvent } from "../outbox/events.js";
import { omitUndefined, timeOrderedUuid } from "../values.js";
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
import type { byPublicIdInput, setPartyByPublicIdInput, setPartyInput, setStatusInput } from "./in-app-schema.js";
import {
  findFormId,
  insertForm,
  type LockedListing,
  lockForm,
  lockListing,
  projectForm,
  type StoredForm,
  updateForm,
} from "./queries.js";
import {
  checkCancellable,
  checkExpectedStatus,
  checkGuestMayChange,
  checkKnownStatus,
  checkListingRules,
  checkNotCancelled,
  checkPartyRules,
  checkStatusOrder,
  isCorrection,
  type Party,
} from "./rules.js";
import { type createInput, type FormV1, readIdempotencyKey, type updateInput } from "./schema.js";
import { CANCELLED } from "./status.js";

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
    body,
    keys: services.keyring.fingerprint,
    fingerprints: fingerprints(services.keyring.fingerprint, body),
  };
  return services.db.sqlTransaction(async (tx) => {
    const [listing, earlier] = await Promise.all([
      lockListing(tx, principal, body.listingId),
      findEarlierCreates(tx, request),
    ]);
    const original = findOriginal(request, earlier, services.settings);
    ctx.outcome.replayed = original !== undefined;
    if (original) return projectForm(await replay(tx, request, original), services.settings);

    checkListingRules(listing, body, { isNewOnListing: true });

    const id = timeOrderedUuid();
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
      insertForm(tx, { ...answer, guestEmail, fingerprint, laterInvitations: 0 }, creation),
      bindKey(tx, request, id),
      recordEvent(tx, ctx, {
        type: "form.created",
        action: "form.created",
        formId: id,
        listings: [listing],
        details: { listingId: listing.id },
      }),
    );
    return projectForm(form, services.settings);
  }, signal);
}

/** Replaces a form's stay, or cancels the form. An update that changes nothing writes nothing. */
export function updateFormStay({ ctx, input }: Call<typeof updateInput, ScopedContext>): Promise<FormV1> {
  const { principal, services, signal } = ctx;
  const { db, keyring, settings } = services;
  return db.sqlTransaction(async (tx) => {
    const stored = await lockForm(tx, principal, input.id);
    const origin = await lockListing(tx, principal, stored.listingId, "form");
    const isNewOnListing = input.listingId !== origin.id;
    const listing = isNewOnListing ? await lockListing(tx, principal, input.listingId) : origin;

    if (input.cancelled) {
      checkCancellable(stored.status);
      return cancel(tx, ctx, stored, origin);
    }
    checkNotCancelled(stored.status);
    const body = canonicalBody(input);
    checkListingRules(listing, body, { isNewOnListing, party: stored });

    const { state, fields, isReaddressed } = updatedState(keyring, stored, input);
    if (fields.length === 0) return projectForm(stored, settings);
    const laterInvitations = isReaddressed
      ? await replaceInvitation(tx, state, ctx.correlationId)
      : stored.laterInvitations;
    const [form] = await tx.commit(
      updateForm(tx, { ...state, laterInvitations }),
      recordEvent(tx, ctx, {
        type: isNewOnListing ? "form.moved" : "form.updated",
        action: "form.updated",
        formId: stored.id,
        listings: isNewOnListing ? [listing, origin] : [listing],
        details: { listingId: listing.id, ...(isNewOnListing && { movedFrom: origin.id }), fields },
      }),
    );
    return projectForm(form, settings);
  }, signal);
}

/** What an update makes of a form, the names of the fields that it changes, and whether the guest is invited at another address. */
function updatedState(keyring: Keyring, stored: StoredForm, input: z.output<typeof updateInput>) {
  const { id } = stored;
  const { externalId = stored.externalId } = input;
  const storedEmail = (stored.guestEmail && tryOpen(keyring.email, stored.guestEmail, id)?.text) ?? null;
  const sent = canonicalBody({ ...input, externalId });
  const body = { ...sent, guestEmail: sent.guestEmail ?? storedEmail };
  const stay = stayOf(body);
  const { guestEmail } = body;
  const fields = changedFields({ ...stored, guestEmail: storedEmail }, { ...stay, guestEmail });
  const isOnlyIdAdded = fields.join() === "externalId" && stored.externalId === null;
  const state = {
    ...stored,
    ...stay,
    // Encrypt with the newest secret. An address that cannot be decrypted is kept as it is.
    guestEmail: guestEmail ? seal(keyring.email, guestEmail, id) : stored.guestEmail,
    // An id that is added does not make the form differ, even if its address was erased since.
    fingerprint: isOnlyIdAdded ? stored.fingerprint : fingerprints(keyring.fingerprint, body)[0],
  };
  const isAnother = guestEmail?.toLowerCase() !== storedEmail?.toLowerCase();
  return { state, fields, isReaddressed: isAnother && stored.status === "SENT" };
}

/** Cancels a form. A form that is cancelled stays as it is. */
async function cancel(
  tx: SqlTransaction,
  ctx: InAppContext | ScopedContext | GuestPageContext,
  stored: StoredForm,
  listing: LockedListing,
): Promise<FormV1> {
  const { id: formId, status: from } = stored;
  const { settings } = ctx.services;
  if (from === CANCELLED) return projectForm(stored, settings);
  const [form] = await tx.commit(
    updateForm(tx, { ...stored, status: CANCELLED, guestEmail: null }),
    endInvitations(tx, formId),
    eraseAnswers(tx, [formId]),
    recordEvent(tx, ctx, {
      type: "form.cancelled",
      action: "form.cancelled",
      formId,
      listings: [listing],
      details: { from, correction: isCorrection(from, CANCELLED) },
    }),
  );
  return projectForm(form, settings);
}

/** The names of the fields that an update has changed. */
const changedFields = <Fields extends object>(before: Fields, after: Fields) =>
  Object.keys(after).filter((field) => before[field as keyof Fields] !== after[field as keyof Fields]);

/** The operator may set any status, and with `force` one that this version does not know. */
export function setStatus({ ctx, input }: Call<typeof setStatusInput, InAppContext>): Promise<FormV1> {
  const { id, status, from, force, dryRun } = input;
  if (ctx.principal.kind === "operator" && !force) checkKnownStatus(status);
  const checkStatus = (stored: string) => checkExpectedStatus(stored, from);
  return changeForm(ctx, id, { status }, { checkStatus, dryRun });
}

export function setParty({ ctx, input: { id, ...party } }: Call<typeof setPartyInput, InAppContext>): Promise<FormV1> {
  return changeForm(ctx, id, omitUndefined(party));
}

/** As `setParty`, for the guest's page. */
export async function setPartyByPublicId({
  ctx,
  input: { publicId, ...party },
}: Call<typeof setPartyByPublicIdInput, GuestPageContext>): Promise<FormV1> {
  const id = await findFormId(ctx.services.db, publicId);
  return changeForm(ctx, id, omitUndefined(party), { checkStatus: checkGuestMayChange });
}

/** The guest has filled in the form. */
export async function completeByPublicId({
  ctx,
  input,
}: Call<typeof byPublicIdInput, GuestPageContext>): Promise<FormV1> {
  const id = await findFormId(ctx.services.db, input.publicId);
  return changeForm(ctx, id, { status: "COMPLETED" }, { checkStatus: checkGuestMayChange });
}

/** Fields that the public API cannot set. Absent fields are unchanged; null unsets. */
interface InAppChange extends Partial<Party> {
  status?: string;
}

interface ChangeOptions {
  /** Throws if a form in this status must not be changed. */
  checkStatus?: (stored: string) => void;
  /** Only checks the change. */
  dryRun?: boolean | undefined;
}

/** Sets a form's status or party. A change that changes nothing writes nothing. */
function changeForm(
  ctx: InAppContext | GuestPageContext,
  id: string,
  change: InAppChange,
  { checkStatus, dryRun }: ChangeOptions = {},
): Promise<FormV1> {
  const { principal, services, signal } = ctx;
  return services.db.sqlTransaction(async (tx) => {
    const stored = await lockForm(tx, principal, id);
    const listing = await lockListing(tx, principal, stored.listingId, "form");

    const { status = stored.status, ...party } = change;
    if (stored.status === CANCELLED && change.status === CANCELLED) return projectForm(stored, services.settings);
    checkNotCancelled(stored.status);
    checkStatus?.(stored.status);
    checkPartyRules(listing, party);
    if (principal.kind !== "operator") checkStatusOrder(stored.status, status);
    if (dryRun) return projectForm(stored, services.settings);
    if (status === CANCELLED) return cancel(tx, ctx, stored, listing);

    const fields = changedFields<Partial<Party>>(stored, party);
    const isMoved = status !== stored.status;
    if (!isMoved && fields.length === 0) return projectForm(stored, services.settings);
    const subject = { formId: id, listings: [listing] };
    const [form] = await tx.commit(
      updateForm(tx, { ...stored, ...change }),
      isMoved &&
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
    return projectForm(form, services.settings);
  }, signal);
}
