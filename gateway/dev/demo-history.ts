import { randomUUID } from "node:crypto";
import type { Services } from "../../server/access/context.js";
import { type Caller, createCaller, type Principal } from "../../server/caller.js";
import { STAGES } from "../../server/forms/status.js";
import { DAY_MS, ENDPOINT_PATH, formInput, HOSTS, HOSTS_DOMAIN, INTEGRATOR, KEYS, LISTINGS } from "./demo-facts.js";
import { type DatedCall, moveToPast, removeHosts } from "./demo-past.js";

// What an operator has after some months: hosts, listings, about 300 forms, keys and webhooks. The demo keys do not see it.

const OPERATORS = ["Nora Blake", "Sam Miller"];
/** As many as the pool of a process has connections. */
const CONCURRENCY = 10;

type CallAt = (daysAgo: number, principal: Principal) => Caller;
type HostedListing = Awaited<ReturnType<typeof createHosts>>["listings"][number];
type Stay = ReturnType<typeof planStays>[number];

/**
 * Creates all of it, in the past and with nothing left to send. Does nothing if the database has users, except those that an
 * interrupted start has left. `receiverUrl` becomes an endpoint of the operator that is disabled.
 */
export async function prepareHistory(services: Services, receiverUrl: string | undefined): Promise<void> {
  const { items } = await createCaller(services, { kind: "operator" }).users.list({ limit: 100 });
  if (items.some(({ email }) => !email.endsWith(HOSTS_DOMAIN))) return;
  await removeHosts(services.db);
  const now = Date.now();
  const calls: DatedCall[] = [];
  const callAt: CallAt = (daysAgo, principal) => {
    const correlationId = randomUUID();
    calls.push({ id: correlationId, at: new Date(now - daysAgo * DAY_MS) });
    return createCaller(services, principal, { correlationId });
  };
  const { userIds, listings } = await createHosts(callAt);
  const addEndpoint = async (userId: string | undefined, url: string) =>
    (await callAt(70, operatorOf(0)).webhooks.create({ userId, url })).id;
  const failing = await addEndpoint(userIds.marta, `https://bookings.costa.example${ENDPOINT_PATH}`);
  const disabled = [await addEndpoint(userIds[INTEGRATOR], `https://staging.channels.example${ENDPOINT_PATH}`)];
  if (receiverUrl) disabled.push(await addEndpoint(undefined, receiverUrl));
  const stays = planStays(listings).entries();
  const createForms = async () => {
    for (const [number, stay] of stays) await createForm(callAt, stay, number);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, createForms));
  for (const id of disabled) await callAt(0, operatorOf(1)).webhooks.disable({ id });
  await moveToPast(services.db, calls, failing);
}

/** One of the operators, the same for equal numbers. */
const operatorOf = (number: number): Principal => ({ kind: "operator", name: OPERATORS.at(number % 2) ?? "" });

/** Returns the ids of users by name, and the listings with who changes their forms. */
async function createHosts(callAt: CallAt) {
  const operatorAt = (daysAgo: number) => callAt(daysAgo, operatorOf(daysAgo));
  const userIds: Record<string, string> = {};
  for (const { name, fullName } of HOSTS)
    userIds[name] = (await operatorAt(120).users.create({ email: name + HOSTS_DOMAIN, name: fullName })).id;
  const userId = (name: string) => userIds[name] ?? "";
  const keyIds: string[] = [];
  for (const { user, label, mode, end } of KEYS) {
    const { id } = await operatorAt(90).keys.issue({ userId: userId(user), mode, label });
    if (end === "revoked") await operatorAt(15).keys.revoke({ id });
    if (end === "rotated") await operatorAt(1).keys.rotate({ id, graceSeconds: 0 });
    keyIds.push(id);
  }
  const key = { kind: "key", keyId: keyIds[0] ?? "", userId: userId(INTEGRATOR), mode: "READ_WRITE" } as const;
  const create = async ({ name, host, input }: (typeof LISTINGS)[number]) => {
    const { id } = await operatorAt(110).listings.create({ ownerId: userId(host), ...input });
    const members = HOSTS.filter(({ listings }) => listings.includes(name));
    for (const { name: user, role } of members)
      await operatorAt(100).members.set({ userId: userId(user), listingId: id, role });
    const principal = { kind: "user", userId: userId(host) } as const;
    return { id, input, host: principal, author: members.some((user) => user.name === INTEGRATOR) ? key : principal };
  };
  return { userIds, listings: await Promise.all(LISTINGS.filter(({ host }) => host !== "demo").map(create)) };
}

/**
 * Stays on each listing, one after the other, from some weeks ago until some months ahead. `from` is in days from today, `daysAgo`
 * when the form is created.
 */
function planStays(listings: HostedListing[]) {
  let number = 0;
  return listings.flatMap((listing, index) => {
    const stays = [];
    for (let from = -42 + (index % 5); from < 150; number++) {
      const nights = 2 + ((number * 3 + index) % 5);
      stays.push({ listing, from, nights, daysAgo: Math.max(0, -from) + 0.1 + ((number * 17) % 40) });
      from += nights + (from < 20 ? number % 2 : 1 + (number % 8));
    }
    return stays;
  });
}

/** The statuses of a form after SENT. The nearer its stay, the later its stage; some forms do not get so far. */
function planStatuses({ from, nights }: Stay, number: number): string[] {
  if (number % 40 === 39) return ["ON_HOLD"];
  if (number % 40 === 20) return ["CANCELLED"];
  const stagesLeft = from + nights < 0 ? 0 : 1 + Math.max(0, Math.floor(from / 15));
  const statuses: string[] = [];
  for (const [index, stage] of STAGES.slice(1, Math.max(1, STAGES.length - stagesLeft - (number % 2))).entries()) {
    const status = stage.at((number + 4 * index) % 11) ?? stage[0];
    statuses.push(status);
    if (status !== stage[0]) break;
  }
  return statuses;
}

/** Creates a form, and makes the changes that lead to its status. */
async function createForm(callAt: CallAt, stay: Stay, number: number): Promise<void> {
  const { listing, from, nights, daysAgo } = stay;
  const { host, author } = listing;
  const { maxPeopleInListing, maxVehicles, allowPets } = listing.input;
  const guestEmail = number % 10 > 0 ? `guest${number}@example.com` : null;
  const body = { ...formInput(listing.id, from, nights, 1 + (number % maxPeopleInListing)), guestEmail };
  const { id } = await callAt(daysAgo, author).forms.create(body);
  const statuses = planStatuses(stay, number);
  const end = Math.max(0, -from - nights);
  for (const [index, status] of statuses.entries()) {
    const isByHost = index > 0 && number % 5 > 0;
    const share = (index + 1) / (statuses.length + 0.1);
    const { forms } = callAt(daysAgo + (end - daysAgo) * share, isByHost ? host : operatorOf(number));
    if (index === 0 && number % 3 === 0)
      await forms.setParty({ id, numberOfVehicles: Math.min(1, maxVehicles), numberOfPets: allowPets ? 1 : 0 });
    await forms.setStatus({ id, status, force: !isByHost });
  }
  if (statuses.length === 0 && number % 4 === 0)
    await callAt(daysAgo / 2, author).forms.update({ ...body, id, numberOfGuests: 1 });
}
