import { randomBytes } from "node:crypto";
import type { Services } from "../../server/access/context.js";
import { createCaller } from "../../server/caller.js";
import type { KeyMode } from "../../server/constants.js";
import { ServiceError } from "../../server/errors.js";
import { type Authenticator, keyAuthenticator } from "../../server/keys/authenticator.js";
import type { Listing } from "../../server/listings/schema.js";

/** Saved between starts because a key is shown only when it is issued. */
export interface SavedDemo {
  readWriteKey: string;
  readOnlyKey: string;
}

export interface Demo extends SavedDemo {
  /** The active listings of the demo key holder. */
  listings: Listing[];
}

const LABEL = "guest-forms demo";
const DAY_MS = 86_400_000;

const LISTINGS = [
  {
    title: "Loft by the canal",
    address: "Kanalweg 7",
    city: "Berlin",
    country: "Germany",
    zipCode: "10997",
    district: "Kreuzberg",
    timezone: "Europe/Berlin",
    maxPeopleInListing: 4,
    maxVehicles: 1,
    allowPets: true,
  },
  {
    title: "Cottage on the cliff",
    address: "2 Harbour Lane",
    city: "St Ives",
    country: "United Kingdom",
    zipCode: "TR26 1AB",
    timezone: "Europe/London",
    maxPeopleInListing: 6,
    allowPets: false,
  },
  {
    title: "Attic under repair",
    address: "Rua da Rosa 31",
    city: "Lisboa",
    country: "Portugal",
    zipCode: "1200-385",
    timezone: "Europe/Lisbon",
    active: false,
  },
];

/** Stays per listing title; `from` is in days from today, and `status` defaults to SENT. */
const STAYS: Record<string, { from: number; nights: number; guests: number; status?: string }[]> = {
  "Loft by the canal": [
    { from: -14, nights: 5, guests: 2, status: "CHECKED_OUT" },
    { from: 3, nights: 4, guests: 3, status: "ACCEPTED" },
    { from: 10, nights: 2, guests: 1, status: "COMPLETED" },
    { from: 21, nights: 7, guests: 4 },
    { from: 40, nights: 3, guests: 2, status: "ON_HOLD" },
  ],
  "Cottage on the cliff": [
    { from: 5, nights: 6, guests: 5, status: "REJECTED" },
    { from: 16, nights: 7, guests: 2 },
  ],
};

/**
 * Creates demo data through the core: a key holder with three listings, forms and a key of each mode. Existing data is
 * kept; keys that no longer work are issued again.
 */
export async function prepareDemo(
  services: Services,
  saved: Partial<SavedDemo>,
  save: (demo: SavedDemo) => void,
): Promise<Demo> {
  const operator = createCaller(services, { kind: "operator" });
  const authenticate = keyAuthenticator(services);
  const holderId = await findHolder(services, authenticate, saved);
  const reuseOrIssueKey = async (mode: KeyMode, key: string | undefined) => {
    const principal = key && (await authenticate(key));
    if (principal && principal.userId === holderId && principal.mode === mode) return key;
    return (await operator.keys.issue({ userId: holderId, mode, label: LABEL })).key;
  };
  const keys = {
    readWriteKey: await reuseOrIssueKey("READ_WRITE", saved.readWriteKey),
    readOnlyKey: await reuseOrIssueKey("READ_ONLY", saved.readOnlyKey),
  };
  save(keys);
  const listings = await prepareListings(services, holderId);
  for (const listing of listings) await addStays(services, holderId, listing);
  return { ...keys, listings: listings.filter(({ active }) => active) };
}

/** The demo key holder, found by a saved key or a key's label; a new user if there is none. */
async function findHolder(services: Services, authenticate: Authenticator, saved: Partial<SavedDemo>): Promise<string> {
  for (const key of [saved.readWriteKey, saved.readOnlyKey]) {
    const principal = key && (await authenticate(key));
    if (principal) return principal.userId;
  }
  const labelled = await services.db.prisma.apiKey.findFirst({
    where: { label: LABEL },
    select: { userId: true },
  });
  return labelled?.userId ?? createHolder(services);
}

async function createHolder(services: Services): Promise<string> {
  const { users } = createCaller(services, { kind: "operator" });
  const create = (email: string) => users.create({ email, name: "Demo Host" });
  const { id } = await create("demo.host@example.com").catch((error) => {
    if (!(error instanceof ServiceError) || error.serviceCode !== "VALIDATION_ERROR") throw error;
    // The address is taken by an interrupted start or another user.
    return create(`demo.host.${randomBytes(4).toString("hex")}@example.com`);
  });
  return id;
}

async function prepareListings(services: Services, holderId: string): Promise<Listing[]> {
  const operator = createCaller(services, { kind: "operator" });
  const holder = createCaller(services, { kind: "user", userId: holderId });
  const { items } = await holder.listings.list({ limit: 100 });
  const listings: Listing[] = [];
  for (const definition of LISTINGS) {
    const existing = items.find(({ title }) => title === definition.title);
    listings.push(existing ?? (await operator.listings.create({ ownerId: holderId, ...definition })));
  }
  return listings;
}

async function addStays(services: Services, holderId: string, listing: Listing): Promise<void> {
  const { forms } = createCaller(services, { kind: "user", userId: holderId });
  const operator = createCaller(services, { kind: "operator" });
  const { items } = await forms.list({ listingId: listing.id, limit: 1 });
  if (items.length > 0) return;
  for (const { from, nights, guests, status } of STAYS[listing.title] ?? []) {
    const form = await forms.create(formInput(listing, from, nights, guests));
    if (status) await operator.forms.setStatus({ id: form.id, status, force: true });
  }
}

/** Form input with check-in at 15:00 UTC `from` days from today, and check-out at 10:00 after `nights`. */
export function formInput(listing: { id: string }, from: number, nights: number, guests: number) {
  const day = (offset: number) => new Date(Date.now() + offset * DAY_MS).toISOString().slice(0, 10);
  return {
    listingId: listing.id,
    checkInDate: `${day(from)}T15:00:00Z`,
    checkOutDate: `${day(from + nights)}T10:00:00Z`,
    numberOfGuests: guests,
  };
}
