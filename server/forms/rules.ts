import { type FieldError, invalid } from "../errors.js";
import type { LockedForm, LockedListing } from "./locks.js";

/** What a form says of the party beside its guests. */
export type Party = Pick<LockedForm, "numberOfVehicles" | "numberOfPets">;

/** `arriving`: the form is new to the listing, and brings this party along where it is moved there. */
interface Arrival {
  arriving: boolean;
  party?: Party;
}

/** The listing's rules for a stay; every one that is broken is reported. */
export function obeyRules(
  listing: LockedListing,
  { numberOfGuests }: { numberOfGuests: number },
  { arriving, party }: Arrival,
): void {
  const faults: FieldError[] = [];
  if (arriving && !listing.active) {
    faults.push({ field: "listingId", issue: "the listing is not active" });
  }
  const most = listing.maxPeopleInListing;
  if (most !== null && numberOfGuests > most) {
    faults.push({ field: "numberOfGuests", issue: `the listing takes at most ${most}` });
  }
  // The body cannot name vehicles and pets: what is wrong about a move is where it goes.
  if (arriving && party) {
    const broken = partyFaults(listing, party).map(({ field, issue }) => `the form's ${field}: ${issue}`);
    if (broken[0]) faults.push({ field: "listingId", issue: broken.join("; ") });
  }
  if (faults.length > 0) throw invalid(faults);
}

/** The listing's rules for vehicles and pets, of those that are given. */
export function obeyPartyRules(listing: LockedListing, party: Partial<Party>): void {
  const faults = partyFaults(listing, party);
  if (faults.length > 0) throw invalid(faults);
}

function partyFaults(listing: LockedListing, { numberOfVehicles, numberOfPets }: Partial<Party>) {
  const faults: FieldError[] = [];
  const most = listing.maxVehicles;
  if (most !== null && numberOfVehicles && numberOfVehicles > most) {
    faults.push({ field: "numberOfVehicles", issue: `the listing takes at most ${most}` });
  }
  if (listing.allowPets === false && numberOfPets) {
    faults.push({ field: "numberOfPets", issue: "the listing takes no pets" });
  }
  return faults;
}

/** The stages of a form; a form goes from any status of one stage to any of the next. */
const STAGES = [
  ["SENT"],
  ["COMPLETED"],
  ["ACCEPTED", "REJECTED"],
  ["VALIDATED", "INVALIDATED"],
  ["CHECKED_OUT"],
];

/** The statuses a form may take from this one without being corrected. */
export function nextStatuses(status: string): readonly string[] {
  const stage = STAGES.findIndex((statuses) => statuses.includes(status));
  return stage === -1 ? [] : (STAGES[stage + 1] ?? []);
}
