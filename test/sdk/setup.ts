import { afterAll, beforeAll, beforeEach } from "vitest";
import { type ClientOptions, type FormInput, GuestForms } from "../../sdk/src/index.js";
import { type FakeService, READ_WRITE_KEY, startFakeService } from "./fake-service.js";
import { type FaultProxy, passThrough, startFaultProxy } from "./fault-proxy.js";

interface FakeServiceContext {
  service: FakeService;
  proxy: FaultProxy;
  client(options?: ClientOptions): GuestForms;
  /** A form input that no other test uses. */
  uniqueStay(): FormInput & { checkInDate: string };
}

/** Starts the fake service behind a fault proxy, once per test file. */
export function useFakeService(): FakeServiceContext {
  const context = {} as FakeServiceContext;
  let day = 0;
  beforeAll(async () => {
    const service = await startFakeService();
    const proxy = await startFaultProxy(service.url);
    Object.assign(context, {
      service,
      proxy,
      client: (options: ClientOptions = {}) =>
        new GuestForms({ apiKey: READ_WRITE_KEY, baseUrl: proxy.url, timeout: 10_000, ...options }),
      uniqueStay: () => {
        day += 1;
        return {
          listingId: service.listings[0]?.id ?? "",
          checkInDate: new Date(Date.UTC(2030, 0, day, 14)).toISOString(),
          checkOutDate: new Date(Date.UTC(2030, 0, day + 3, 10)),
          numberOfGuests: 2,
          guestEmail: "ana@example.com",
        };
      },
    } satisfies FakeServiceContext);
  });
  beforeEach(() => {
    context.proxy.injectNext();
    context.proxy.injectAlways(passThrough);
    context.proxy.requests.length = 0;
    context.service.createKeys.length = 0;
  });
  afterAll(async () => {
    await context.proxy.close();
    await context.service.close();
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
