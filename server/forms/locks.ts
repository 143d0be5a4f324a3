import type { Principal } from "../context.js";
import type { Transaction } from "../db.js";
import { notFound } from "../errors.js";
import { membershipInScope } from "../scope.js";

export interface LockedListing {
  id: string;
  active: boolean;
  maxPeopleInListing: number | null;
  maxVehicles: number | null;
  allowPets: boolean | null;
}

/** Where a listing `l` has what its rules need. */
const RULE_OF = {
  active: "l.active",
  maxPeopleInListing: "l.max_people_in_listing",
  maxVehicles: "l.max_vehicles",
  allowPets: "l.allow_pets",
} satisfies Record<Exclude<keyof LockedListing, "id">, string>;

/** Those columns, and the listing's id. */
export const RULE_COLUMNS = `l.id, ${Object.entries(RULE_OF)
  .map(([name, column]) => `${column} AS "${name}"`)
  .join(", ")}`;

/** What they hold, to be compared: a change of anything else about the listing is none of a form's. */
export const RULES = `(${Object.values(RULE_OF).join(", ")})::text`;

// The listing before the membership: whoever ends a membership takes them in this order too.
const LISTING_IN_SCOPE = `
  SELECT ${RULE_COLUMNS}
  FROM memberships m JOIN listings l ON l.id = m.listing_id
  WHERE ${membershipInScope("$2")} AND m.listing_id = $1::uuid
  FOR SHARE OF l, m`;

const ANY_LISTING = `SELECT ${RULE_COLUMNS} FROM listings l WHERE l.id = $1::uuid FOR SHARE`;

/**
 * The listing, if the principal may write to it. Neither it nor the membership that grants it can change before the
 * transaction ends.
 */
export async function lockListing(tx: Transaction, principal: Principal, id: string): Promise<LockedListing> {
  const [listing] =
    principal.kind === "operator"
      ? await tx.$queryRawUnsafe<LockedListing[]>(ANY_LISTING, id)
      : await tx.$queryRawUnsafe<LockedListing[]>(LISTING_IN_SCOPE, id, principal.userId);
  if (!listing) throw notFound();
  return listing;
}

export interface LockedForm {
  listingId: string;
  status: string;
  numberOfVehicles: number | null;
  numberOfPets: number | null;
  guestEmail: Uint8Array | null;
}

const FORM_COLUMNS = `f.listing_id AS "listingId", f.status, f.number_of_vehicles AS "numberOfVehicles",
  f.number_of_pets AS "numberOfPets", f.guest_email AS "guestEmail"`;

// A scalar subquery, for it is judged anew on the row that a concurrent move leaves behind; a join is not.
const FORM_IN_SCOPE = `
  SELECT ${FORM_COLUMNS}
  FROM forms f
  WHERE f.id = $1::uuid
    AND (SELECT count(*) FROM memberships m WHERE ${membershipInScope("$2")} AND m.listing_id = f.listing_id) = 1
  FOR NO KEY UPDATE`;

const ANY_FORM = `SELECT ${FORM_COLUMNS} FROM forms f WHERE f.id = $1::uuid FOR NO KEY UPDATE`;

/** The form, if the principal may write it; locked against other writers. */
export async function lockForm(tx: Transaction, principal: Principal, id: string): Promise<LockedForm> {
  const [form] =
    principal.kind === "operator"
      ? await tx.$queryRawUnsafe<LockedForm[]>(ANY_FORM, id)
      : await tx.$queryRawUnsafe<LockedForm[]>(FORM_IN_SCOPE, id, principal.userId);
  if (!form) throw notFound();
  return form;
}
