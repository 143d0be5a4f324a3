import { randomUUID } from "node:crypto";
import { nanoid } from "nanoid";
import { audit } from "../audit.js";
import type { Context, Holder, InAppPrincipal } from "../context.js";
import { demandTime, type Sql } from "../db.js";
import { invalid, notFound } from "../errors.js";
import { type Keys, open, seal } from "../secrets.js";
import { canonicalEmail, isUuid, parseInstant } from "../values.js";
import {
  type CanonicalBody,
  type CreateRequest,
  find,
  fingerprints,
  replay,
  takeTurns,
} from "./idempotency.js";
import { insert, type NewForm } from "./insert.js";
import { lockForm, lockListing } from "./locks.js";
import { FORM_SELECT, projectForm, projectStatus } from "./projection.js";
import { nextStatuses, obeyPartyRules, obeyRules, type Party } from "./rules.js";
import type { FormBody, FormV1 } from "./schema.js";

type HolderContext = Context & { principal: Holder };
type InAppContext = Context & { principal: InAppPrincipal };

/** What to write: a new form, or the form with this id as the body says. */
export interface WriteRequest {
  body: FormBody;
  /** The form to update; absent for a create. */
  id?: string;
  /** Of a create; ignored on an update. */
  idempotencyKey?: string | undefined;
}

/**
 * The only way to write a form's stay, for keys and for the in-app flow alike: normalise, authorise, answer a repeat,
 * judge by the listing's rules, write, audit, notify; all or nothing (decisions, "The safety pipeline"). `replayed`
 * tells that nothing was written and the form is an earlier request's answer.
 */
export async function writeForm(
  context: HolderContext,
  { body, id, idempotencyKey }: WriteRequest,
): Promise<{ form: FormV1; replayed: boolean }> {
  const stay = normalise(body);
  if (id === undefined) return create(context, stay, idempotencyKey);
  return { form: await update(context, stay, id), replayed: false };
}

/** What only the application sets on a form; what is absent stays as it is, null unsets. */
export interface InAppChange extends Partial<Party> {
  status?: string;
}

/**
 * The only way to write the rest of a form, through the same steps: authorise under locks, judge by the listing's
 * rules and the order of the statuses, write, audit. A user is held to their scope and that order; the operator may
 * correct any form to any status.
 */
export function changeForm(context: InAppContext, formId: string, change: InAppChange): Promise<FormV1> {
  if (!isUuid(formId)) throw notFound();
  const id = formId.toLowerCase();
  const { principal, services } = context;
  return services.db.transaction(async (tx) => {
    const stored = await lockForm(tx, principal, id);
    const listing = await lockListing(tx, principal, stored.listingId);
    obeyPartyRules(listing, change);
    const { status, ...party } = change;
    const step =
      status !== undefined && status !== stored.status ? { from: stored.status, to: status } : null;
    const isCorrection = step !== null && !nextStatuses(step.from).includes(step.to);
    if (isCorrection && principal.kind !== "operator") throw outOfOrder(step.from);
    const row = await tx.form.update({ where: { id }, data: change, select: FORM_SELECT });
    if (step) await audit(tx, context, "form.status_set", id, { ...step, correction: isCorrection });
    const fields = Object.keys(party);
    if (fields.length > 0) await audit(tx, context, "form.party_set", id, { fields });
    return projectForm(row);
  });
}

function outOfOrder(from: string) {
  const next = nextStatuses(from);
  const issue = `a form that is ${projectStatus(from)} can ${next.length > 0 ? `only become ${next.join(" or ")}` : "not go on"}`;
  return invalid([{ field: "status", issue }]);
}

function normalise(body: FormBody): CanonicalBody {
  return {
    listingId: body.listingId,
    checkInDate: parseInstant(body.checkInDate) ?? Number.NaN,
    checkOutDate: parseInstant(body.checkOutDate) ?? Number.NaN,
    numberOfGuests: body.numberOfGuests,
    guestEmail: body.guestEmail ? canonicalEmail(body.guestEmail) : null,
  };
}

/**
 * Reads without locks what the request is judged by, then writes it all in one statement, which does nothing unless
 * that still holds: then from the start again. Equal requests meet in the unique index of the fingerprints; where the
 * secrets are being rotated they may bear different ones, and so take turns.
 */
function create(context: HolderContext, body: CanonicalBody, key: string | undefined) {
  const { db, keyring } = context.services;
  const request: CreateRequest = {
    holderId: context.principal.userId,
    key,
    body,
    fingerprints: fingerprints(keyring.fingerprint, body),
  };
  const { isOverdue } = context;
  if (request.fingerprints.length === 1)
    return db.retrying((sql) => replayOrInsert(context, sql, request), isOverdue);
  return db.sqlTransaction(async (tx) => {
    await takeTurns(tx, request);
    return replayOrInsert(context, tx, request);
  }, isOverdue);
}

async function replayOrInsert(context: HolderContext, sql: Sql, request: CreateRequest) {
  const { principal, services, correlationId } = context;
  const { body } = request;
  const found = await find(sql, request);
  const earlier = await replay(sql, request, found);
  if (earlier) return { form: earlier, replayed: true };
  obeyRules(found.listing, body, { arriving: true });
  const id = randomUUID();
  const stay: NewForm = {
    id,
    listingId: body.listingId,
    publicId: nanoid(),
    status: "SENT",
    checkInDate: new Date(body.checkInDate).toISOString(),
    checkOutDate: new Date(body.checkOutDate).toISOString(),
    numberOfGuests: body.numberOfGuests,
    numberOfVehicles: null,
    numberOfPets: null,
    guestEmail: body.guestEmail ? seal(services.keyring.email, body.guestEmail, id) : null,
  };
  const author = {
    kind: principal.kind,
    id: principal.kind === "key" ? principal.keyId : principal.userId,
    correlationId,
  };
  return { form: await insert(sql, request, found, stay, author), replayed: false };
}

function update(context: HolderContext, body: CanonicalBody, formId: string): Promise<FormV1> {
  if (!isUuid(formId)) throw notFound();
  const id = formId.toLowerCase();
  const { principal, services } = context;
  return services.db.transaction(async (tx) => {
    const stored = await lockForm(tx, principal, id);
    const origin = await lockListing(tx, principal, stored.listingId);
    const moved = body.listingId !== origin.id;
    const listing = moved ? await lockListing(tx, principal, body.listingId) : origin;
    obeyRules(listing, body, { arriving: moved, party: stored });
    const guestEmail = body.guestEmail ?? reopened(services.keyring.email, stored.guestEmail, id);
    const whole = { ...body, guestEmail };
    const [fingerprint] = fingerprints(services.keyring.fingerprint, whole);
    const { guestEmail: sealed, ...others } = columns(context, id, whole, fingerprint);
    // The locks may have been waited for.
    demandTime(context.isOverdue);
    const row = await tx.form.update({
      where: { id },
      data: sealed ? { ...others, guestEmail: sealed } : others,
      select: FORM_SELECT,
    });
    await audit(tx, context, "form.updated", id, {
      listingId: listing.id,
      ...(moved && { movedFrom: stored.listingId }),
    });
    return projectForm(row);
  }, context.isOverdue);
}

/** The stored address; null where there is none, or none that opens, for the secret it was sealed with is gone. */
function reopened(keys: Keys, sealed: Uint8Array | null, id: string): string | null {
  try {
    return sealed && open(keys, sealed, id);
  } catch {
    return null;
  }
}

/** The body as columns of the form; the e-mail sealed, and bound to the form it belongs to. */
function columns({ services }: Context, id: string, body: CanonicalBody, fingerprint: Buffer) {
  return {
    listingId: body.listingId,
    checkInDate: new Date(body.checkInDate),
    checkOutDate: new Date(body.checkOutDate),
    numberOfGuests: body.numberOfGuests,
    guestEmail: body.guestEmail
      ? (seal(services.keyring.email, body.guestEmail, id) as Uint8Array<ArrayBuffer>)
      : null,
    fingerprint: fingerprint as Uint8Array<ArrayBuffer>,
  };
}
