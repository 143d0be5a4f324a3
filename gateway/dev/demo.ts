import type { Services } from "../../server/access/context.js";
import { type Caller, createCaller } from "../../server/caller.js";
import type { KeyMode } from "../../server/constants.js";
import { ServiceError } from "../../server/errors.js";
import { keyAuthenticator } from "../../server/keys/authenticator.js";
import type { Listing } from "../../server/listings/schema.js";
import { DEMO_STAYS, formInput, INACTIVE, LISTINGS } from "./demo-facts.js";
import { prepareHistory } from "./demo-history.js";

/** Saved between starts because a key is shown only when it is issued. */
export interface SavedDemo {
  readWriteKey: string;
  readOnlyKey: string;
}

export interface Demo extends SavedDemo {
  /** The listings of the demo key holder. */
  listings: Listing[];
}

const LABEL = "guest-forms demo";

/**
 * Creates demo data through the core: a key holder with three listings, forms and a key of each mode. Existing data is
 * kept; keys that no longer work are issued again. A database without users also gets other hosts and a history, whose
 * events were sent to `receiverUrl`.
 */
export async function prepareDemo(
  services: Services,
  saved: Partial<SavedDemo>,
  save: (demo: SavedDemo) => void,
  receiverUrl?: string,
): Promise<Demo> {
  // First, because it belongs to a database without users.
  await prepareHistory(services, receiverUrl);
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
  for (const { name, input } of LISTINGS.filter(({ host }) => host === "demo")) {
    const existing = items.find(({ title }) => title === input.title);
    const listing = existing ?? (await operator.listings.create({ ownerId, ...input, active: name !== INACTIVE }));
    listings.push(listing);
    const forms = await holder.forms.list({ listingId: listing.id, limit: 1 });
    if (forms.items.length > 0) continue;
    for (const { from, nights, guests, status } of DEMO_STAYS.filter((stay) => stay.listing === name)) {
      const form = await holder.forms.create(formInput(listing.id, from, nights, guests));
      if (status) await operator.forms.setStatus({ id: form.id, status, force: true });
    }
  }
  return listings;
}
