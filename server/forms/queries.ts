import type { Form, Prisma } from "../../prisma/client/client.js";
import type { Principal } from "../access/context.js";
import { membershipInScope } from "../access/scope.js";
import type { Settings } from "../config.js";
import type { Sql } from "../database/db.js";
import { MARK_IN_FLIGHT } from "../database/in-flight-creates.js";
import { notFound } from "../errors.js";
import { enqueueInvitations, moveInvitations } from "../outbox/enqueue.js";
import { HAS_ENDPOINTS } from "../outbox/events.js";
import { columnsOf, nullFields, type SqlRow, selectList, snakeCase } from "../resources/resource.js";
import type { ListingRules } from "./rules.js";
import { type FormV1, formV1, projectStatus } from "./schema.js";

// The statements that lock and write forms, one function each, and the projection to the public form. Statements that lock a
// form check scope, except the operator's. Updates and erasures require a form that the transaction has locked.

/** SQL: when form `f` was last changed. */
export const UPDATED_AT = "coalesce(f.updated_at, f.created_at)";

/** The stored part of the public form: `guestUrl` is a matter of settings. */
const storedForm = formV1.omit({ guestUrl: true });

type StoredField = keyof typeof storedForm.shape;

/** Select list of the stored part of the public form over `forms f`. Never contains the guest's email address. */
export const FORM_COLUMNS = selectList(storedForm, "f", { updatedAt: UPDATED_AT });

/** A form as stored. Its status may be one that this version does not know. */
export type FormRow = SqlRow<Prisma.FormGetPayload<{ select: { [Field in StoredField]: true } }>> &
  Pick<FormV1, "updatedAt">;

const PUBLIC_FIELDS = Object.keys(formV1.shape) as (keyof FormV1)[];

/** The public form of a stored one: its fields only, in the order of the schema, as the bodies of webhooks have them. */
export function projectForm(row: FormRow, { FORM_URL_TEMPLATE }: Pick<Settings, "FORM_URL_TEMPLATE">): FormV1 {
  const form = {
    ...row,
    status: projectStatus(row.status),
    guestUrl: FORM_URL_TEMPLATE === undefined ? null : guestUrlOf(row, FORM_URL_TEMPLATE),
  };
  return Object.fromEntries(PUBLIC_FIELDS.map((field) => [field, form[field]])) as FormV1;
}

/** The link to the page where the guest fills in the form. */
export const guestUrlOf = ({ publicId }: Pick<FormRow, "publicId">, template: string): string =>
  template.replaceAll("{publicId}", encodeURIComponent(publicId));

export interface LockedListing extends ListingRules {
  id: string;
  /** Whether a webhook endpoint may receive events about it. */
  hasEndpoints: boolean;
}

const LISTING_RULES = `l.id, l.active, l.max_people_in_listing AS "maxPeopleInListing",
  l.max_vehicles AS "maxVehicles", l.allow_pets AS "allowPets", ${HAS_ENDPOINTS} AS "hasEndpoints"`;

// Locks the listing before the membership, like the removal of a membership, to avoid deadlocks.
const LOCK_LISTING = `
  SELECT ${LISTING_RULES}
  FROM memberships m JOIN listings l ON l.id = m.listing_id
  WHERE ${membershipInScope("$2")} AND m.listing_id = $1::uuid
  FOR SHARE OF l, m`;

const LOCK_ANY_LISTING = `SELECT ${LISTING_RULES} FROM listings l WHERE l.id = $1::uuid FOR SHARE`;

/**
 * Locks and returns the listing if the principal may write to it. Neither the listing nor the membership can change before
 * the transaction ends. `resource` is what the error message names.
 */
export async function lockListing(
  sql: Sql,
  principal: Principal,
  id: string,
  resource: "form" | "listing" = "listing",
): Promise<LockedListing> {
  const [listing] =
    "userId" in principal
      ? await sql.query<LockedListing>("lock-listing", LOCK_LISTING, [id, principal.userId])
      : await sql.query<LockedListing>("lock-any-listing", LOCK_ANY_LISTING, [id]);
  if (!listing) throw notFound(resource);
  return listing;
}

/** The columns that changes of a form write, and their types. */
const STATE = {
  listingId: "uuid",
  status: "text",
  checkInDate: "timestamptz",
  checkOutDate: "timestamptz",
  numberOfGuests: "int",
  numberOfVehicles: "int",
  numberOfPets: "int",
  externalId: "text",
  guestEmail: "bytea",
  fingerprint: "bytea",
  laterInvitations: "int",
} as const;

type StateField = keyof typeof STATE;
const STATE_FIELDS = Object.keys(STATE) as StateField[];
const PUBLIC_STATE = STATE_FIELDS.filter((field) => field in formV1.shape);
const PRIVATE_STATE = STATE_FIELDS.filter((field) => !(field in formV1.shape));

export interface FormState extends Omit<SqlRow<Pick<Form, StateField>>, "guestEmail" | "fingerprint"> {
  /** Encrypted (`seal`). */
  guestEmail: Uint8Array | null;
  /** Fingerprint of the body that matches the current state. */
  fingerprint: Uint8Array;
}

/** SQL parameters of the mutable columns, the first of which is `$first`. */
const stateParameters = (first: number) =>
  Object.fromEntries(STATE_FIELDS.map((field, index) => [field, `$${first + index}::${STATE[field]}`])) as Record<
    StateField,
    string
  >;

const stateValues = (state: FormState) => STATE_FIELDS.map((field) => state[field]);

/** A form as stored, with what is not public. */
export type StoredForm = FormRow & FormState;

const STORED_COLUMNS = `${FORM_COLUMNS}, ${columnsOf(PRIVATE_STATE, "f")}`;

// A scalar subquery is evaluated again if a concurrent move changed the row; a join is not.
const LOCK_FORM = `
  SELECT ${STORED_COLUMNS}
  FROM forms f
  WHERE f.id = $1::uuid
    AND (SELECT count(*) FROM memberships m WHERE ${membershipInScope("$2")} AND m.listing_id = f.listing_id) = 1
  FOR NO KEY UPDATE`;

const LOCK_ANY_FORM = `SELECT ${STORED_COLUMNS} FROM forms f WHERE f.id = $1::uuid FOR NO KEY UPDATE`;

/** Locks and returns the form if the principal may write to it. */
export async function lockForm(sql: Sql, principal: Principal, id: string): Promise<StoredForm> {
  const [form] =
    "userId" in principal
      ? await sql.query<StoredForm>("lock-form", LOCK_FORM, [id, principal.userId])
      : await sql.query<StoredForm>("lock-any-form", LOCK_ANY_FORM, [id]);
  if (!form) throw notFound("form");
  return form;
}

const ID_OF_PUBLIC_ID = "SELECT f.id FROM forms f WHERE f.public_id = $1::text";

/** A form keeps its public id. */
export async function findFormId(sql: Sql, publicId: string): Promise<string> {
  const [form] = await sql.query<{ id: string }>("form-id-of-public-id", ID_OF_PUBLIC_ID, [publicId]);
  if (!form) throw notFound("form");
  return form.id;
}

const NEW = stateParameters(7);

// Takes the advisory lock (in-flight-creates.ts) before `created_at` is set.
const INSERT = `
  WITH in_flight AS MATERIALIZED (
    SELECT ${MARK_IN_FLIGHT}
  ), form AS (
    INSERT INTO forms AS f (id, public_id, ${STATE_FIELDS.map(snakeCase)})
    SELECT $1::uuid, $2::text, ${Object.values(NEW)} FROM in_flight
    RETURNING ${FORM_COLUMNS}
  ), creation AS (
    INSERT INTO creations (form_id, holder_id, fingerprint, current_fingerprint, answer, secret_id)
    VALUES ($1::uuid, $3::uuid, ${NEW.fingerprint}, ${NEW.fingerprint}, $4::jsonb, $5::text)
  ), invitation AS (
    ${enqueueInvitations(`SELECT $1::uuid, ${NEW.listingId}, ${NEW.checkInDate}, $6::uuid
      WHERE ${NEW.guestEmail} IS NOT NULL AND ${NEW.checkOutDate} > now()`)}
  )
  SELECT * FROM form`;

/** The response to a create, stored for its replays. Its times are stored with the form. */
type Answer = Omit<FormRow, "createdAt" | "updatedAt">;

/** A stored response, possibly older than some of the fields. */
export type StoredAnswer = Partial<Answer> & Pick<FormRow, "id" | "listingId" | "publicId" | "status">;

const NULL_FIELDS = nullFields(storedForm);

/** Restores a stored response. Fields that did not exist when it was stored are null. */
export const restoreForm = (answer: StoredAnswer, createdAt: string): FormRow => ({
  ...NULL_FIELDS,
  ...answer,
  createdAt,
  updatedAt: createdAt,
});

interface NewCreation {
  holderId: string;
  answer: Answer;
  correlationId: string;
  /** Id of the secret of the fingerprint. */
  secretId: string;
}

/**
 * Inserts a form, its create request with the stored response, and an invitation if there is an email address and the stay
 * is not over.
 */
export async function insertForm(
  sql: Sql,
  { id, publicId, ...state }: FormState & { id: string; publicId: string },
  { holderId, answer, correlationId, secretId }: NewCreation,
): Promise<FormRow> {
  const creation = [holderId, JSON.stringify(answer), secretId, correlationId];
  const values = [id, publicId, ...creation, ...stateValues(state)];
  return written(await sql.query<FormRow>("insert-form", INSERT, values));
}

const CHANGED = stateParameters(2);

const UPDATE = `
  WITH moved AS (${moveInvitations("$1::uuid", CHANGED.listingId, CHANGED.checkInDate)})
  UPDATE forms f
  SET ${STATE_FIELDS.map((field) => `${snakeCase(field)} = ${CHANGED[field]}`)},
    updated_at = CASE WHEN ${PUBLIC_STATE.map((field) => `f.${snakeCase(field)} IS DISTINCT FROM ${CHANGED[field]}`).join(" OR ")}
      THEN greatest(${UPDATED_AT}, clock_timestamp()) ELSE f.updated_at END
  WHERE id = $1::uuid
  RETURNING ${FORM_COLUMNS}`;

/** Updates a form that the transaction has locked. Its time is that of the statement: later than the wait for the lock. */
export async function updateForm(sql: Sql, { id, ...state }: StoredForm): Promise<FormRow> {
  return written(await sql.query<FormRow>("update-form", UPDATE, [id, ...stateValues(state)]));
}

function written([row]: FormRow[]): FormRow {
  if (!row) throw new Error("the statement wrote no form");
  return row;
}

const ERASE = "UPDATE forms SET guest_email = NULL WHERE id = ANY($1::uuid[])";

/** Erases the guests' email addresses of forms that the transaction has locked. */
export async function eraseGuestEmails(sql: Sql, ids: string[]): Promise<void> {
  await sql.query("erase-guest-emails", ERASE, [ids]);
}

const RENEW = `
  UPDATE forms f SET guest_email = renewed.guest_email, fingerprint = renewed.fingerprint
  FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS renewed(id, guest_email, fingerprint) WHERE f.id = renewed.id`;

/** Stores the same addresses and fingerprints made with another secret, for forms that the transaction has locked. */
export async function renewForms(
  sql: Sql,
  forms: readonly ({ id: string } & Pick<FormState, "guestEmail" | "fingerprint">)[],
): Promise<void> {
  const emails = forms.map(({ guestEmail }) => guestEmail);
  const fingerprints = forms.map(({ fingerprint }) => fingerprint);
  await sql.query("renew-forms", RENEW, [forms.map(({ id }) => id), emails, fingerprints]);
}
