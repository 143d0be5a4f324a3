import { type FieldError, invalid } from "../errors.js";
import { projectStatus } from "./schema.js";
import { CANCELLED, KNOWN_STATUSES, nextStatuses, STATUS_RULE } from "./status.js";

/** Limits of a listing; null means no limit. */
export interface ListingRules {
  active: boolean;
  maxPeopleInListing: number | null;
  maxVehicles: number | null;
  allowPets: boolean | null;
}

/** Vehicles and pets of a form. The public API cannot set them. */
export interface Party {
  numberOfVehicles: number | null;
  numberOfPets: number | null;
}

/** `isNewOnListing`: the form is created on the listing or moved to it. `party`: of the stored form, checked on a move. */
interface Placement {
  isNewOnListing: boolean;
  party?: Party;
}

/** Throws VALIDATION_ERROR with every rule of the listing that the stay breaks. */
export function checkListingRules(
  listing: ListingRules,
  { numberOfGuests }: { numberOfGuests: number },
  { isNewOnListing, party }: Placement,
): void {
  const fieldErrors: FieldError[] = [];
  if (isNewOnListing && !listing.active) {
    fieldErrors.push({ field: "listingId", issue: "the listing is not active" });
  }
  const maxGuests = listing.maxPeopleInListing;
  if (maxGuests !== null && numberOfGuests > maxGuests) {
    fieldErrors.push({ field: "numberOfGuests", issue: `must be at most ${maxGuests} on this listing` });
  }
  // The body has no vehicles or pets, so report the listing that the form is moved to.
  if (isNewOnListing && party) {
    const broken = partyErrors(listing, party).map(({ field, issue }) => `the form's ${field} ${issue}`);
    if (broken.length > 0) fieldErrors.push({ field: "listingId", issue: broken.join("; ") });
  }
  if (fieldErrors.length > 0) throw invalid(fieldErrors);
}

/** Throws VALIDATION_ERROR with every rule of the listing that the party breaks. */
export function checkPartyRules(listing: ListingRules, party: Partial<Party>): void {
  const fieldErrors = partyErrors(listing, party);
  if (fieldErrors.length > 0) throw invalid(fieldErrors);
}

function partyErrors(listing: ListingRules, { numberOfVehicles, numberOfPets }: Partial<Party>) {
  const fieldErrors: FieldError[] = [];
  const { maxVehicles } = listing;
  if (maxVehicles !== null && numberOfVehicles && numberOfVehicles > maxVehicles) {
    fieldErrors.push({ field: "numberOfVehicles", issue: `must be at most ${maxVehicles} on this listing` });
  }
  if (listing.allowPets === false && numberOfPets) {
    fieldErrors.push({ field: "numberOfPets", issue: "must be 0: the listing does not allow pets" });
  }
  return fieldErrors;
}

/** Whether a status change violates the order of the stages. */
export const isCorrection = (from: string, to: string): boolean => from !== to && !nextStatuses(from).includes(to);

/** Throws VALIDATION_ERROR if a form does not have the status that the caller expects. */
export function checkExpectedStatus(status: string, expected: string | undefined): void {
  if (expected === undefined || expected === status) return;
  throw invalid([{ field: "from", issue: `the form is ${projectStatus(status)}` }]);
}

/** Throws VALIDATION_ERROR if the form is cancelled: nothing changes it anymore, and its invitation is not sent. */
export function checkNotCancelled(status: string): void {
  if (status !== CANCELLED) return;
  throw invalid([{ field: "cancelled", issue: "the form is cancelled: create a new one for another booking" }]);
}

/** Throws VALIDATION_ERROR if the guest may not change the form anymore. */
export function checkGuestMayChange(status: string): void {
  checkNotCancelled(status);
  if (["SENT", "COMPLETED"].includes(status)) return;
  throw invalid([
    { field: "status", issue: `the form is ${projectStatus(status)}: the guest cannot change it anymore` },
  ]);
}

/** Throws VALIDATION_ERROR if the form's guests have left. */
export function checkCancellable(status: string): void {
  if (status !== "CHECKED_OUT") return;
  throw invalid([{ field: "cancelled", issue: "a form that is CHECKED_OUT cannot be cancelled" }]);
}

/** Throws VALIDATION_ERROR if a status change violates the order of the stages. */
export function checkStatusOrder(from: string, to: string): void {
  if (!isCorrection(from, to)) return;
  const next = nextStatuses(from);
  const issue = `a form that is ${projectStatus(from)} can ${next.length > 0 ? `only become ${next.join(" or ")}` : "not change its status"}`;
  throw invalid([{ field: "status", issue }]);
}

/** Throws VALIDATION_ERROR if this version does not know the status. */
export function checkKnownStatus(status: string): void {
  if ((KNOWN_STATUSES as readonly string[]).includes(status)) return;
  throw invalid([{ field: "status", issue: STATUS_RULE }]);
}
