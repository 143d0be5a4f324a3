import type { Services } from "../../server/access/context.js";
import { type Caller, createCaller, type Principal } from "../../server/caller.js";
import type { KeyMode } from "../../server/constants.js";
import { DEMO_PREFIX, openPast, type Past, removeDemoData } from "./demo-past.js";

// What an operator has after some months: hosts, listings, about 300 forms, keys and webhooks. The demo key does not see it.

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const OPERATORS = ["Nora Blake", "Sam Miller"];
/** One of the operators, the same for equal numbers. */
const operatorOf = (number: number): Principal => ({
  kind: "operator",
  name: OPERATORS[number % OPERATORS.length] ?? "",
});

/** The listings whose forms the integrator creates with its key. */
const INTEGRATED = ["porto", "seville", "rome", "paris", "vienna", "amsterdam", "helsinki"] as const;

/** Hosts also own the listings that name them. */
// biome-ignore format: a table, with one row per line to compare them
const USERS = [
  { id: "marta", name: "Marta Costa", role: "OWNER", listings: [] },
  { id: "jonas", name: "Jonas Weber", role: "OWNER", listings: [] },
  { id: "eleni", name: "Eleni Pappas", role: "WRITER", listings: ["rome"] },
  { id: "cleaning", name: "Bright Cleaning", role: "READER", listings: ["porto", "rome", "vienna"] },
  { id: "channels", name: "Channel Connect", role: "WRITER", listings: INTEGRATED },
] as const;

/** The last columns: the maximum numbers of guests and vehicles, and whether pets are allowed. */
// biome-ignore format: a table, with one row per line to compare them
const LISTINGS = [
  ["porto", "marta", "Studio by the river", "Rua das Flores 88", "Porto", "Portugal", "4050-265", "Europe/Lisbon", "pt", 2, 0, false],
  ["seville", "marta", "House with a patio", "Calle Feria 45", "Seville", "Spain", "41003", "Europe/Madrid", "es", 5, 1, null],
  ["rome", "marta", "Rooftop flat", "Via Giulia 101", "Rome", "Italy", "00186", "Europe/Rome", "it", 4, 0, false],
  ["paris", "marta", "Two rooms under the roof", "12 Rue Oberkampf", "Paris", "France", "75011", "Europe/Paris", "fr", 2, 0, false],
  ["vienna", "jonas", "Flat by the market", "Neubaugasse 40", "Vienna", "Austria", "1070", "Europe/Vienna", "de", 4, 1, true],
  ["amsterdam", "jonas", "House on the canal", "Prinsengracht 300", "Amsterdam", "Netherlands", "1016 HX", "Europe/Amsterdam", "nl", 4, 0, true],
  ["copenhagen", "jonas", "Courtyard loft", "Istedgade 60", "Copenhagen", "Denmark", "1650", "Europe/Copenhagen", null, 3, 1, null],
  ["helsinki", "jonas", "Apartment with a sauna", "Fredrikinkatu 33", "Helsinki", "Finland", "00120", "Europe/Helsinki", null, 4, 1, true],
  ["athens", "eleni", "Terrace with a view", "Adrianou 24", "Athens", "Greece", "105 55", "Europe/Athens", "en", 6, 1, true],
  ["reykjavik", "eleni", "Cabin near the harbor", "Vesturgata 15", "Reykjavik", "Iceland", "101", "Atlantic/Reykjavik", null, 5, 2, true],
  ["edinburgh", "eleni", "Flat in the old town", "120 High Street", "Edinburgh", "United Kingdom", "EH1 1SG", "Europe/London", null, 2, 0, false],
] as const;

type UserId = (typeof USERS)[number]["id"];
type ListingName = (typeof LISTINGS)[number][0];

const CLOSED = { name: "edinburgh", daysAgo: 9 } as const;

/** Every fourth form that is SENT on the first of these is moved to the second. */
const MOVES: { [Name in ListingName]?: ListingName } = { paris: "rome", vienna: "amsterdam" };

/** The statuses that lead to a status. */
const STEPS: Record<string, string[]> = {
  SENT: [],
  COMPLETED: ["COMPLETED"],
  ACCEPTED: ["COMPLETED", "ACCEPTED"],
  REJECTED: ["COMPLETED", "REJECTED"],
  VALIDATED: ["COMPLETED", "ACCEPTED", "VALIDATED"],
  INVALIDATED: ["COMPLETED", "ACCEPTED", "INVALIDATED"],
  CHECKED_OUT: ["COMPLETED", "ACCEPTED", "VALIDATED", "CHECKED_OUT"],
  ON_HOLD: ["ON_HOLD"],
};

const PAST_STATUSES = { CHECKED_OUT: 40, REJECTED: 3, INVALIDATED: 2, SENT: 2, ON_HOLD: 1 };
/** Of stays that are not over, by days until check-in. The numbers are weights. */
const STATUSES: [days: number, weights: Record<string, number>][] = [
  [0, { VALIDATED: 7, ACCEPTED: 2, INVALIDATED: 1 }],
  [14, { ACCEPTED: 6, VALIDATED: 3, COMPLETED: 5, SENT: 3, REJECTED: 1 }],
  [45, { SENT: 10, COMPLETED: 4, ACCEPTED: 4, REJECTED: 1 }],
  [1_000, { SENT: 26, COMPLETED: 3, ON_HOLD: 1 }],
];

const REFUSED = "Can't send mail - all recipients were rejected:";
/** Forms whose invitation was not sent. `hoursAgo` they were created; `from` is in days from today. */
// biome-ignore format: a table, with one row per line to compare them
const UNSENT = [
  { listing: "rome", hoursAgo: 0.4, from: 1, nights: 2, state: "waiting", attempts: 0, lastError: null },
  { listing: "athens", hoursAgo: 0.7, from: 2, nights: 3, state: "waiting", attempts: 0, lastError: null },
  { listing: "vienna", hoursAgo: 5, from: 0, nights: 3, state: "retrying", attempts: 8,
    lastError: `${REFUSED} 452 4.2.2 <g***@e***.com>: Mailbox full, try again later` },
  { listing: "seville", hoursAgo: 27, from: 12, nights: 4, state: "failed", attempts: 1,
    lastError: `${REFUSED} 550 5.1.1 <g***@e***.com>: Recipient address rejected: mailbox unavailable` },
  { listing: "helsinki", hoursAgo: 140, from: 33, nights: 6, state: "failed", attempts: 1,
    lastError: `${REFUSED} 550 5.4.1 <g***@e***.com>: Recipient address rejected: access denied` },
] as const;

/** When they were issued, used and so on, in days ago. The first one creates forms. */
// biome-ignore format: a table, with one row per line to compare them
const KEYS: { user: UserId; label: string; mode: KeyMode; issued: number; used?: number; rotated?: number; revoked?: number; expired?: number }[] = [
  { user: "channels", label: "Production", mode: "READ_WRITE", issued: 98, used: 0.005 },
  { user: "channels", label: "Trial", mode: "READ_WRITE", issued: 97, used: 68, expired: 67 },
  { user: "marta", label: "Old laptop", mode: "READ_WRITE", issued: 90, used: 17, revoked: 15 },
  { user: "channels", label: "Reports", mode: "READ_ONLY", issued: 60, used: 1.1, rotated: 1 },
  { user: "marta", label: "Spreadsheet", mode: "READ_ONLY", issued: 41, used: 0.04 },
  { user: "jonas", label: "Door lock", mode: "READ_ONLY", issued: 12 },
];

interface Listing {
  id: string;
  name: ListingName;
  host: UserId;
  guests: number;
  vehicles: number;
  pets: boolean | null;
}

interface Stay {
  listing: Listing;
  checkIn: number;
  checkOut: number;
  guests: number;
  guestEmail: string | null;
  created: number;
  status: string;
  unsent?: Pick<(typeof UNSENT)[number], "state" | "attempts" | "lastError">;
}

type Users = Record<UserId, string>;
type Listings = Record<ListingName, Listing>;
type OperatorAt = (daysAgo: number) => Caller;

/**
 * Creates all of it, in the past and with nothing left to send. Does nothing if the database has users, except those that an
 * interrupted start has left.
 */
export async function prepareHosts(services: Services): Promise<void> {
  const { items } = await createCaller(services, operatorOf(0)).users.list({ limit: 100 });
  if (items.some(({ externalId }) => !externalId?.startsWith(DEMO_PREFIX))) return;
  if (items.length > 0) await removeDemoData(services);
  const past = openPast(services);
  const now = Date.now();
  const operatorAt = (daysAgo: number) => past.callAt(now - daysAgo * DAY_MS, operatorOf(daysAgo));
  const users = await createUsers(operatorAt);
  const listings = await createListings(operatorAt);
  const keys = await issueKeys(operatorAt, users, now);
  const integrator: Principal = { kind: "key", keyId: keys[0]?.id ?? "", userId: users.channels, mode: "READ_WRITE" };
  const emails = await createForms({ past, now, users, listings, integrator });
  await operatorAt(CLOSED.daysAgo).listings.deactivate({ id: listings[CLOSED.name].id });
  const createEndpoint = (daysAgo: number, userId: string, url: string) =>
    operatorAt(daysAgo).webhooks.create({ userId, url });
  const failing = await createEndpoint(70, users.marta, "https://bookings.costa.example/guest-forms");
  const unused = await createEndpoint(50, users.channels, "https://staging.channels.example/webhooks");
  await operatorAt(30).webhooks.disable({ id: unused.id });
  await past.write({ emails, keys, failingEndpointId: failing.id });
}

async function createUsers(operatorAt: OperatorAt): Promise<Users> {
  const create = async ({ id, name }: (typeof USERS)[number], index: number) => {
    const row = { type: "user", externalId: DEMO_PREFIX + id, email: `${id}@example.com`, name } as const;
    const { ids } = await operatorAt(120 - index).onboarding.write({ rows: [row] });
    return [id, ids[0]];
  };
  return Object.fromEntries(await Promise.all(USERS.map(create)));
}

async function createListings(operatorAt: OperatorAt): Promise<Listings> {
  const create = async (row: (typeof LISTINGS)[number], index: number): Promise<Listing> => {
    const [name, host, title, address, city, country, zipCode, timezone, language, guests, vehicles, pets] = row;
    const place = { title, address, city, country, zipCode, timezone, language };
    const limits = { maxPeopleInListing: guests, maxVehicles: vehicles, allowPets: pets };
    const listing = { type: "listing", externalId: DEMO_PREFIX + name, ...place, ...limits } as const;
    const { ids } = await operatorAt(112 - index).onboarding.write({ rows: [listing] });
    return { id: ids[0] ?? "", name, host, guests, vehicles, pets };
  };
  const listings = await Promise.all(LISTINGS.map(create));
  const rowOf = (user: UserId, listing: ListingName, role: string) =>
    ({ type: "membership", user: DEMO_PREFIX + user, listing: DEMO_PREFIX + listing, role }) as const;
  const owners = listings.map(({ name, host }) => rowOf(host, name, "OWNER"));
  const others = USERS.flatMap(({ id, role, listings }) => listings.map((listing) => rowOf(id, listing, role)));
  await operatorAt(100).onboarding.write({ rows: [...owners, ...others] });
  return Object.fromEntries(listings.map((listing) => [listing.name, listing])) as Listings;
}

const issueKeys = (operatorAt: OperatorAt, users: Users, now: number) =>
  Promise.all(
    KEYS.map(async ({ user, label, mode, issued, used, revoked, rotated, expired }) => {
      const { id } = await operatorAt(issued).keys.issue({ userId: users[user], mode, label });
      if (revoked) await operatorAt(revoked).keys.revoke({ id });
      if (rotated) await operatorAt(rotated).keys.rotate({ id, graceSeconds: 0 });
      const timeOf = (daysAgo?: number) => (daysAgo ? new Date(now - daysAgo * DAY_MS) : undefined);
      return { id, lastUsedAt: timeOf(used), expiresAt: timeOf(expired) };
    }),
  );

/** Stays on each listing, one after the other, from some weeks ago until some months ahead, after those of `UNSENT`. */
function planStays(listings: Listings, now: number): Stay[] {
  const random = createRandom();
  const integer = (from: number, to: number) => from + Math.floor(random() * (to - from + 1));
  const timeOf = (day: number, hour: number) => (Math.floor(now / DAY_MS) + day) * DAY_MS + hour * HOUR_MS;
  const stays: Stay[] = [];
  const stayOn = (listing: Listing, from: number, nights: number) => {
    const checkIn = timeOf(from, 15);
    const usual = checkIn - (3 + 40 * random()) * DAY_MS;
    const created = usual < now ? usual : now - HOUR_MS - 45 * random() ** 2 * DAY_MS;
    const guestEmail = `guest${stays.length + 1}@example.com`;
    const guests = integer(1, listing.guests);
    return { listing, checkIn, checkOut: timeOf(from + nights, 10), guests, guestEmail, created };
  };
  for (const { listing, hoursAgo, from, nights, ...unsent } of UNSENT) {
    const stay = stayOn(listings[listing], from, nights);
    stays.push({ ...stay, created: now - hoursAgo * HOUR_MS, status: "SENT", unsent });
  }
  for (const listing of Object.values(listings)) {
    const end = listing.name === CLOSED.name ? -CLOSED.daysAgo : 150;
    for (let from = integer(-42, -38); from < end; ) {
      const nights = integer(2, 6);
      const stay = stayOn(listing, from, nights);
      const isOver = stay.checkOut + HOUR_MS < now;
      const weights = isOver ? PAST_STATUSES : (STATUSES.find(([days]) => from <= days)?.[1] ?? {});
      const guestEmail = random() < 0.1 ? null : stay.guestEmail;
      stays.push({ ...stay, guestEmail, status: pick(weights, random()) });
      from += nights + (from < 20 ? integer(0, 1) : integer(1, from / 9));
    }
  }
  return stays;
}

interface Forms {
  past: Past;
  now: number;
  users: Users;
  listings: Listings;
  integrator: Principal;
}

/** Creates the forms, and makes the changes that lead to their statuses. Returns the invitations that were not sent. */
async function createForms({ past, now, users, listings, integrator }: Forms) {
  const emails: Parameters<Past["write"]>[0]["emails"] = [];
  await runConcurrently(planStays(listings, now), async (stay, index) => {
    const { listing, checkIn, checkOut, created, status, unsent } = stay;
    const host: Principal = { kind: "user", userId: users[listing.host] };
    const author = INTEGRATED.some((name) => name === listing.name) ? integrator : host;
    const [checkInDate, checkOutDate] = [new Date(checkIn).toISOString(), new Date(checkOut).toISOString()];
    const guests = { numberOfGuests: stay.guests, guestEmail: stay.guestEmail };
    const body = { listingId: listing.id, checkInDate, checkOutDate, ...guests };
    const { id } = await past.callAt(created, author).forms.create(body);
    if (unsent) emails.push({ formId: id, ...unsent });
    const steps = STEPS[status] ?? [];
    const isCheckedOut = status === "CHECKED_OUT";
    const end = isCheckedOut ? checkOut + HOUR_MS : Math.min(now, checkIn);
    for (const [step, next] of steps.entries()) {
      const isByHost = next !== "COMPLETED" && next !== "ON_HOLD" && index % 5 > 0;
      const share = (step + 1) / (steps.length + (isCheckedOut ? 0 : 1));
      const { forms } = past.callAt(created + (end - created) * share, isByHost ? host : operatorOf(index));
      if (next === "COMPLETED" && index % 3 === 0) {
        const numberOfPets = listing.pets ? index % 2 : 0;
        await forms.setParty({ id, numberOfVehicles: Math.min(1, listing.vehicles), numberOfPets });
      }
      await forms.setStatus({ id, status: next, force: !isByHost });
    }
    const target = MOVES[listing.name];
    if (!target || status !== "SENT" || unsent || index % 4 > 0) return;
    await past.callAt((created + now) / 2, author).forms.update({ ...body, id, listingId: listings[target].id });
  });
  return emails;
}

/** A generator of numbers from 0 to 1 that are the same at each start. */
function createRandom(): () => number {
  let state = 20_26;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

/** A name, as often as its weight. `random` is from 0 to 1. */
function pick(weights: Record<string, number>, random: number): string {
  const names = Object.entries(weights).flatMap(([name, weight]) => Array<string>(weight).fill(name));
  return names[Math.floor(random * names.length)] ?? "SENT";
}

/** As many as the pool of a process has connections. */
const CONCURRENCY = 10;

async function runConcurrently<Item>(items: Item[], work: (item: Item, index: number) => Promise<void>): Promise<void> {
  const left = items.entries();
  const run = async () => {
    for (const [index, item] of left) await work(item, index);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, run));
}
