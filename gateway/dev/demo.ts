import type { Services } from "../../server/access/context.js";
import { type Caller, createCaller } from "../../server/caller.js";
import type { KeyMode } from "../../server/constants.js";
import { ServiceError } from "../../server/errors.js";
import { keyAuthenticator } from "../../server/keys/authenticator.js";
import type { Listing } from "../../server/listings/schema.js";
import { prepareHosts } from "./demo-hosts.js";

/** Saved between starts because a key is shown only when it is issued. */
export interface SavedDemo {
  readWriteKey: string;
  readOnlyKey: string;
}

export interface Demo extends SavedDemo {
  /** The listings of the demo key holder. */
  listings: Listing[];
}

type Definition = Omit<Parameters<Caller["listings"]["create"]>[0], "ownerId"> & {
  stays: { from: number; nights: number; guests: number; status?: string }[];
};

const LABEL = "guest-forms demo";
const DAY_MS = 86_400_000;

/** The `from` of a stay is in days from today, and its `status` defaults to SENT. */
const LISTINGS: Definition[] = [
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
    stays: [
      { from: -14, nights: 5, guests: 2, status: "CHECKED_OUT" },
      { from: 3, nights: 4, guests: 3, status: "ACCEPTED" },
      { from: 10, nights: 2, guests: 1, status: "COMPLETED" },
      { from: 21, nights: 7, guests: 4 },
      { from: 40, nights: 3, guests: 2, status: "ON_HOLD" },
    ],
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
    stays: [
      { from: 5, nights: 6, guests: 5, status: "REJECTED" },
      { from: 16, nights: 7, guests: 2 },
    ],
  },
  {
    title: "Attic under repair",
    address: "Rua da Rosa 31",
    city: "Lisboa",
    country: "Portugal",
    zipCode: "1200-385",
    timezone: "Europe/Lisbon",
    active: false,
    stays: [],
  },
];

/**
 * Creates demo data through the core: a key holder with three listings, forms and a key of each mode. Existing data is
 * kept; keys that no longer work are issued again. A database without users also gets other hosts and a past.
 */
export async function prepareDemo(
  services: Services,
  saved: Partial<SavedDemo>,
  save: (demo: SavedDemo) => void,
): Promise<Demo> {
  // First, because it belongs to a database without users.
  await prepareHosts(services);
  const operator = createCaller(services, { kind: "operator" });
  const authenticate = keyAuthenticator(services);
  const holderId = await findHolder(operator);
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
  const holder = createCaller(services, { kind: "user", userId: holderId });
  const listings = await prepareListings(operator, holder, holderId);
  return { ...keys, listings };
}

/** Returns the demo key holder; creates one at the first start. */
async function findHolder({ users }: Caller): Promise<string> {
  const email = "demo.host@example.com";
  const { id } = await users.create({ email, name: "Demo Host" }).catch((error) => {
    if (!(error instanceof ServiceError) || error.serviceCode !== "VALIDATION_ERROR") throw error;
    // An earlier start has created it.
    return users.find({ user: email });
  });
  return id;
}

async function prepareListings(operator: Caller, holder: Caller, ownerId: string): Promise<Listing[]> {
  const { items } = await holder.listings.list({ limit: 100 });
  const listings: Listing[] = [];
  for (const { stays, ...definition } of LISTINGS) {
    const existing = items.find(({ title }) => title === definition.title);
    const listing = existing ?? (await operator.listings.create({ ownerId, ...definition }));
    listings.push(listing);
    const forms = await holder.forms.list({ listingId: listing.id, limit: 1 });
    for (const { from, nights, guests, status } of forms.items.length > 0 ? [] : stays) {
      const form = await holder.forms.create(formInput(listing, from, nights, guests));
      if (status) await operator.forms.setStatus({ id: form.id, status, force: true });
    }
  }
  return listings;
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
