import { afterEach, beforeEach, vi } from "vitest";
import { type ClientOptions, type FormV1, GuestForms, type Listing } from "../../sdk/src/index.js";
import { afterFile } from "../support/after-file.js";
import { asUser, makeListing } from "../support/factories.js";
import { startTestGateway } from "../support/gateway.js";
import { passThrough, startFaultProxy } from "./fault-proxy.js";

/** Starts the gateway with its own database behind a fault proxy. */
async function startContext(settings: Record<string, string | number>) {
  const gateway = await startTestGateway(settings);
  const services = await gateway.services();
  const { userId, key: readWrite, readOnlyKey: readOnly } = await gateway.addKeyHolder();
  /** Three listings of the key holder, oldest first. */
  const listings: Listing[] = [];
  for (const title of ["Alfama", "Belem", "Chiado"]) listings.push(await makeListing(services, userId, { title }));
  const proxy = await startFaultProxy(gateway);
  let day = 0;
  return {
    gateway,
    proxy,
    readWrite,
    readOnly,
    listings,
    /** A client with the read-write key, behind the proxy. */
    client: (options: ClientOptions = {}) =>
      new GuestForms({ apiKey: readWrite, baseUrl: proxy.url, timeout: 10_000, ...options }),
    /** The forms of the key holder or of one listing in list order, read without the SDK. */
    async forms(listingId?: string): Promise<FormV1[]> {
      const filter = listingId ? { listingId } : {};
      const found: FormV1[] = [];
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const page = await asUser(services, userId).forms.list({ ...filter, limit: 100, cursor });
        found.push(...page.items);
        cursor = page.nextCursor;
      }
      return found;
    },
    /** A form input that no other test uses. */
    uniqueStay() {
      day += 1;
      return {
        listingId: listings[0]?.id ?? "",
        checkInDate: new Date(Date.UTC(2030, 0, day, 14)).toISOString(),
        checkOutDate: new Date(Date.UTC(2030, 0, day + 3, 10)),
        numberOfGuests: 2,
        guestEmail: "ana@example.com",
      };
    },
  };
}

/** Starts the gateway of a test file. Stubs, mocks and fake timers of a test end with it. */
export async function useGateway(settings: Record<string, string | number> = {}) {
  const context = await startContext(settings);
  afterFile(() => context.proxy.close());
  beforeEach(() => {
    context.proxy.injectNext();
    context.proxy.injectAlways(passThrough);
    context.proxy.requests.length = 0;
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
    vi.unstubAllGlobals();
  });
  return context;
}

/** Returns the error that a promise rejects with. */
export async function rejection(promise: PromiseLike<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("The promise was not rejected");
}
