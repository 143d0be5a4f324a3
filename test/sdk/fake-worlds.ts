import { describe, expect, test } from "vitest";
import { NEW_LISTING } from "../../sdk/src/fake-schema.js";
import {
  ApiError,
  type ApiPromise,
  type FormInput,
  type FormV1,
  GuestForms,
  IdempotencyKeyReusedError,
  type Listing,
  type Page,
  ValidationError,
} from "../../sdk/src/index.js";
import { FakeService } from "../../sdk/src/testing.js";
import { asOperator, makeListing, setRole } from "../support/factories.js";
import { UUID } from "../support/public-fields.js";
import { useGateway } from "./setup.js";

const {
  id: _id,
  publicId: _publicId,
  externalId: _externalId,
  createdAt: _createdAt,
  ...LISTING_DEFAULTS
} = NEW_LISTING;

type Party = { numberOfVehicles?: number; numberOfPets?: number };

type ListingValues = Partial<
  Pick<Listing, "maxPeopleInListing" | "maxVehicles" | "allowPets" | "active" | "externalId">
>;

/** What a scenario may do, on the service or on the fake. */
interface World {
  client: GuestForms;
  readOnly: GuestForms;
  addListing(values: ListingValues): Promise<Listing>;
  setStatus(form: FormV1, status: string): Promise<unknown>;
  setParty(form: FormV1, party: Party): Promise<unknown>;
  removeFromScope(listing: Listing): Promise<unknown>;
}

async function realWorld({ gateway, proxy }: Awaited<ReturnType<typeof useGateway>>): Promise<World> {
  const services = await gateway.services();
  const { userId, key, readOnlyKey } = await gateway.addKeyHolder();
  const connect = (apiKey: string) => new GuestForms({ apiKey, baseUrl: proxy.url, maxRetries: 0 });
  return {
    client: connect(key),
    readOnly: connect(readOnlyKey),
    async addListing({ externalId = null, ...values }) {
      const listing = await makeListing(services, userId, { ...LISTING_DEFAULTS, ...values });
      // Only an import sets it.
      await services.db.pool.query("UPDATE listings SET external_id = $1 WHERE id = $2", [externalId, listing.id]);
      return { ...listing, externalId };
    },
    setStatus: ({ id }, status) => asOperator(services).forms.setStatus({ id, status }),
    setParty: ({ id }, party) => asOperator(services).forms.setParty({ id, ...party }),
    removeFromScope: ({ id }) => setRole(services, id, userId, "READER"),
  };
}

async function fakeWorld(): Promise<World> {
  const service = new FakeService();
  const change = ({ id }: FormV1, values: Partial<FormV1>) =>
    Object.assign(service.forms.find((form) => form.id === id) ?? {}, values);
  const connect = (apiKey: string) =>
    new GuestForms({ apiKey, baseUrl: "https://fake.test", maxRetries: 0, fetch: service.fetch });
  return {
    client: connect("grf_rw_test"),
    readOnly: connect("grf_ro_test"),
    addListing: async (values) => service.addListing(values),
    setStatus: async (form, status) => change(form, { status }),
    setParty: async (form, party) => change(form, party),
    removeFromScope: async (listing) => service.listings.splice(service.listings.indexOf(listing), 1),
  };
}

/** A body of a create or update. */
export const stay = (listing: Listing, changes: Partial<FormInput> = {}): FormInput => ({
  listingId: listing.id,
  checkInDate: "2030-07-01T15:00:00+02:00",
  checkOutDate: "2030-07-08T09:00:00Z",
  numberOfGuests: 2,
  guestEmail: "Ana@Example.com",
  ...changes,
});

/** What a program can see of a call: its result or error, without texts for humans. */
async function outcome<T>(call: ApiPromise<T>): Promise<Record<string, unknown>> {
  try {
    const { data, replayed, response } = await call.withResponse();
    const { location } = response.headers;
    expect(Object(data)._replayed).toBe(replayed);
    const { items, nextCursor } = data as Partial<Page<unknown>>;
    return { status: response.status, replayed, location, data: items ? { items, isLast: nextCursor === null } : data };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const fields = error instanceof ValidationError ? error.errors.map(({ field }) => field) : undefined;
    const formId = error instanceof IdempotencyKeyReusedError ? error.formId : undefined;
    const { status, code, name, headers } = error;
    return { status, code, name, fields, formId, location: headers.location };
  }
}

/** Notes the outcome of a call. */
type See = (call: ApiPromise<unknown>) => Promise<void>;

export type Scenarios = Record<string, (world: World, see: See) => Promise<void>>;

const GENERATED_ID = new RegExp(UUID.source.replaceAll(/[\^$]/g, ""), "gi");

const isTime = (value: string) => new Date(value).toISOString() === value;

/** The times of each form, in order: its creation and its changes, as far as they were seen. */
function timesOf(outcomes: unknown[]): Map<string, string[]> {
  const times = new Map<string, string[]>();
  JSON.parse(JSON.stringify(outcomes), (_name, value) => {
    if (value?.updatedAt) {
      const known = times.get(value.id) ?? [];
      times.set(value.id, [...new Set([...known, value.createdAt, value.updatedAt])].sort());
    }
    return value;
  });
  return times;
}

/**
 * A copy in which ids are numbered in the order of their appearance, and times of changes in the order of time, per form.
 * Public ids and times of creation are shapes.
 */
function anonymize(outcomes: unknown[]): unknown {
  const ids: string[] = [];
  const numberOf = (id: string) => (ids.includes(id) ? ids.indexOf(id) : ids.push(id) - 1);
  const times = timesOf(outcomes);
  const numbered = JSON.parse(JSON.stringify(outcomes), (_name, value) =>
    value?.updatedAt && isTime(value.updatedAt)
      ? { ...value, updatedAt: `change ${times.get(value.id)?.indexOf(value.updatedAt)}` }
      : value,
  );
  return JSON.parse(JSON.stringify(numbered), (name, value) => {
    if (name === "publicId") return /^[\w-]{21}$/.test(value) ? "a public id" : value;
    if (name === "createdAt") return isTime(value) ? "a time" : value;
    return typeof value === "string" ? value.replace(GENERATED_ID, (id) => `id ${numberOf(id)}`) : value;
  });
}

async function play(scenario: Scenarios[string], world: World) {
  const outcomes: unknown[] = [];
  await scenario(world, async (call) => void outcomes.push(await outcome(call)));
  return outcomes;
}

/** Plays the scenarios on the service and on the fake, and compares what a program sees. */
export async function compare(scenarios: Scenarios): Promise<void> {
  const context = await useGateway();
  describe("the fake has the results and errors of the service", () => {
    test.each(Object.entries(scenarios))("%s", async (_name, scenario) => {
      const [real, fake] = [await play(scenario, await realWorld(context)), await play(scenario, await fakeWorld())];
      expect(real.length).toBeGreaterThan(0);
      expect(anonymize(fake)).toEqual(anonymize(real));
    });
  });
}
