import { afterAll, beforeAll, beforeEach } from "vitest";
import { type ClientOptions, type FormInput, GuestForms } from "../../sdk/src/index.js";
import { type FakeService, READ_WRITE, startFakeService } from "./fake-service.js";
import { type Mischief, pass, startMischief } from "./mischief.js";

interface World {
  service: FakeService;
  mischief: Mischief;
  client(options?: ClientOptions): GuestForms;
  /** A stay that no other test has. */
  stay(): FormInput & { checkInDate: string };
}

/** A service behind a proxy for mischief, for the tests of one file. */
export function useWorld(): World {
  const world = {} as World;
  let day = 0;
  beforeAll(async () => {
    const service = await startFakeService();
    const mischief = await startMischief(service.url);
    Object.assign(world, {
      service,
      mischief,
      client: (options: ClientOptions = {}) =>
        new GuestForms({ apiKey: READ_WRITE, baseUrl: mischief.url, timeout: 10_000, ...options }),
      stay: () => {
        day += 1;
        return {
          listingId: service.listings[0]?.id ?? "",
          checkInDate: new Date(Date.UTC(2030, 0, day, 14)).toISOString(),
          checkOutDate: new Date(Date.UTC(2030, 0, day + 3, 10)),
          numberOfGuests: 2,
          guestEmail: "ana@example.com",
        };
      },
    } satisfies World);
  });
  beforeEach(() => {
    world.mischief.plan();
    world.mischief.always(pass);
    world.mischief.requests.length = 0;
    world.service.creates.length = 0;
  });
  afterAll(async () => {
    await world.mischief.close();
    await world.service.close();
  });
  return world;
}

/** What a promise is rejected with. */
export async function rejection(promise: PromiseLike<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("It was not rejected");
}
