import { afterAll, afterEach, beforeAll, beforeEach, expect, vi } from "vitest";
import {
  type ClientOptions,
  type FormInput,
  type FormV1,
  GuestForms,
  type Listing,
} from "../../sdk/src/index.js";
import { readAllPages } from "../support/bulk.js";
import { asUser, makeListing } from "../support/factories.js";
import { startTestGateway, type TestGateway } from "../support/gateway.js";
import { validateResponse } from "../support/validate-response.js";
import { type FaultProxy, passThrough, startFaultProxy } from "./fault-proxy.js";

interface GatewayContext {
  gateway: TestGateway;
  proxy: FaultProxy;
  /** A read-write and a read-only key of one holder. */
  readWrite: string;
  readOnly: string;
  /** Three listings of the key holder, oldest first. */
  listings: Listing[];
  /** A client with the read-write key, behind the proxy. */
  client(options?: ClientOptions): GuestForms;
  /** The forms of the key holder or of one listing in list order, read without the SDK. */
  forms(listingId?: string): Promise<FormV1[]>;
  /** A form input that no other test uses. */
  uniqueStay(): FormInput & { checkInDate: string };
}

/**
 * Starts the gateway with its own database behind a fault proxy, once per test file. Every response of the gateway must
 * match the OpenAPI document. Stubs, mocks and fake timers of a test end with it.
 */
export function useGateway(settings: () => Record<string, string | number> = () => ({})): GatewayContext {
  const context = {} as GatewayContext;
  const documentMismatches: unknown[] = [];
  let day = 0;
  beforeAll(async () => {
    const gateway = await startTestGateway(settings());
    const services = await gateway.services();
    const { userId, key, readOnlyKey } = await gateway.addKeyHolder();
    const listings: Listing[] = [];
    for (const title of ["Alfama", "Belem", "Chiado"])
      listings.push(await makeListing(services, userId, { title }));
    const proxy = await startFaultProxy(gateway.url, (method, path, { status, headers, body }) => {
      try {
        validateResponse(method, path, status, headers, body ? JSON.parse(body) : undefined);
      } catch (error) {
        documentMismatches.push(error);
      }
    });
    Object.assign(context, {
      gateway,
      proxy,
      readWrite: key,
      readOnly: readOnlyKey,
      listings,
      client: (options: ClientOptions = {}) =>
        new GuestForms({ apiKey: key, baseUrl: proxy.url, timeout: 10_000, ...options }),
      forms: async (listingId) => {
        const found: FormV1[] = [];
        await readAllPages(100, async (input) => {
          const page = await asUser(services, userId).forms.list({
            ...input,
            ...(listingId && { listingId }),
          });
          found.push(...page.items);
          return page;
        });
        return found;
      },
      uniqueStay: () => {
        day += 1;
        return {
          listingId: listings[0]?.id ?? "",
          checkInDate: new Date(Date.UTC(2030, 0, day, 14)).toISOString(),
          checkOutDate: new Date(Date.UTC(2030, 0, day + 3, 10)),
          numberOfGuests: 2,
          guestEmail: "ana@example.com",
        };
      },
    } satisfies GatewayContext);
  });
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
  afterAll(async () => {
    await context.proxy.close();
    expect(documentMismatches).toEqual([]);
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
