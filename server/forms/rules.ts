import { type FieldError, invalid } from "../errors.js";
import { KNOWN_STATUSES, STAGES } from "./status.js";

/** What a listing demands of its forms; null means no limit. */
export interface ListingRules {
  active: boolean;
  maxPeopleInListing: number | null;
  maxVehicles: number | null;
  allowPets: boolean | null;
}

/** What a form says of its party beside the guests. */
export interface Party {
  numberOfVehicles: number | null;
  numberOfPets: number | null;
}

/** A form that is new to the listing, and the party it brings along if it is moved there. */
interface Placement {
  isNewOnListing: boolean;
  party?: Party;
}

/** Throws VALIDATION_ERROR with every rule of the listing that a stay breaks. */
export function checkListingRules(
  listing: ListingRules,
  { numberOfGuests }: { numberOfGuests: number },
  { isNewOnListing, party }: Placement,
): void {
  const faults: FieldError[] = [];
  if (isNewOnListing && !listing.active) {
    faults.push({ field: "listingId", issue: "the listing is not active" });
  }
  const maxGuests = listing.maxPeopleInListing;
  if (maxGuests !== null && numberOfGuests > maxGuests) {
    faults.push({ field: "numberOfGuests", issue: `the listing takes at most ${maxGuests}` });
  }
  // A body has no vehicles or pets, so the field at fault is the listing that the form is moved to.
  if (isNewOnListing && party) {
    const broken = partyFaults(listing, party).map(({ field, issue }) => `the form's ${field}: ${issue}`);
    if (broken.length > 0) faults.push({ field: "listingId", issue: broken.join("; ") });
  }
  if (faults.length > 0) throw invalid(faults);
}

/** Throws VALIDATION_ERROR with every rule of the listing that the given part of a party breaks. */
export function checkPartyRules(listing: ListingRules, party: Partial<Party>): void {
  const faults = partyFaults(listing, party);
  if (faults.length > 0) throw invalid(faults);
}

function partyFaults(listing: ListingRules, { numberOfVehicles, numberOfPets }: Partial<Party>) {
  const faults: FieldError[] = [];
  const { maxVehicles } = listing;
  if (maxVehicles !== null && numberOfVehicles && numberOfVehicles > maxVehicles) {
    faults.push({ field: "numberOfVehicles", issue: `the listing takes at most ${maxVehicles}` });
  }
  if (listing.allowPets === false && numberOfPets) {
    faults.push({ field: "numberOfPets", issue: "the listing takes no pets" });
  }
  return faults;
}

function nextStatuses(status: string): readonly string[] {
  const stage = STAGES.findIndex((statuses) => (statuses as readonly string[]).includes(status));
  return stage === -1 ? [] : (STAGES[stage + 1] ?? []);
}

/** Whether a change of status leaves the order of the stages. */
export const isCorrection = (from: string, to: string): boolean =>
  from !== to && !nextStatuses(from).includes(to);

/** Throws VALIDATION_ERROR if a change of status leaves the order of the stages. */
export function checkStatusOrder(from: string, to: string): void {
  if (!isCorrection(from, to)) return;
  const next = nextStatuses(from);
  const publicStatus = KNOWN_STATUSES.includes(from) ? from : "UNKNOWN";
  const issue = `a form that is ${publicStatus} can ${next.length > 0 ? `only become ${next.join(" or ")}` : "not go on"}`;
  throw invalid([{ field: "status", issue }]);
}

/** Throws VALIDATION_ERROR if this version does not know the status. */
export function checkKnownStatus(status: string): void {
  if (KNOWN_STATUSES.includes(status)) return;
  const issue = `must be one of ${KNOWN_STATUSES.join(", ")}; any other is set only with force`;
  throw invalid([{ field: "status", issue }]);
}
