import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, expect } from "vitest";
import { startGateway } from "../../gateway/serve.js";
import {
  type ClientOptions,
  type FormInput,
  type FormV1,
  GuestForms,
  type Listing,
} from "../../sdk/src/index.js";
import { type Caller, createCaller } from "../../server/caller.js";
import { readSettings } from "../../server/config.js";
import { openServices } from "../../server/services.js";
import { validateResponse } from "../contract/responses.js";
import { freshDatabase } from "../harness.js";
import { type Mischief, pass, startMischief } from "./mischief.js";

interface GatewayWorld {
  /** The gateway itself, without mischief in front. */
  url: string;
  mischief: Mischief;
  readWrite: string;
  readOnly: string;
  /** The holder's listings, oldest first. */
  listings: Listing[];
  /** The core as the operator. */
  core: Caller;
  /** The holder of both keys. */
  userId: string;
  client(options?: ClientOptions): GuestForms;
  /** All forms there are, past any mischief. */
  forms(listingId?: string): Promise<FormV1[]>;
  /** A stay that no other test has. */
  stay(): FormInput & { checkInDate: string };
}

/** The real gateway on a database of its own, behind a proxy for mischief, for the tests of one file. */
export function useGateway(env: () => Record<string, string> = () => ({})): GatewayWorld {
  const world = {} as GatewayWorld;
  const closers: (() => Promise<void>)[] = [];
  /** Answers that are not as the document says. */
  const undocumented: unknown[] = [];
  let day = 0;
  beforeAll(async () => {
    const { url: DATABASE_URL } = await freshDatabase();
    const settings = readSettings({ RATE_LIMIT_MAX: "100000", ...env(), DATABASE_URL, PORT: "0" });
    const log = pino({ level: "silent" });
    const gateway = await startGateway({ settings, log, worker: false });
    closers.push(() => gateway.stop());
    const { services, close } = await openServices(settings, log);
    closers.push(close);
    const core = createCaller(services, { kind: "operator" });
    const { id: userId } = await core.users.create({ email: "host@example.com" });
    const listings: Listing[] = [];
    for (const title of ["Alfama", "Belem", "Chiado"]) {
      listings.push(
        await core.listings.create({
          ownerId: userId,
          title,
          address: "Rua das Flores 1",
          city: "Lisboa",
          country: "PT",
          zipCode: "1200-001",
          timezone: "Europe/Lisbon",
        }),
      );
    }
    const readWrite = (await core.keys.issue({ userId, mode: "READ_WRITE" })).key;
    const readOnly = (await core.keys.issue({ userId, mode: "READ_ONLY" })).key;
    const mischief = await startMischief(gateway.url, (method, path, { status, headers, body }) => {
      try {
        validateResponse(method, path, status, headers, body ? JSON.parse(body) : undefined);
      } catch (error) {
        undocumented.push(error);
      }
    });
    closers.push(() => mischief.close());
    Object.assign(world, {
      url: gateway.url,
      mischief,
      readWrite,
      readOnly,
      listings,
      core,
      userId,
      client: (options: ClientOptions = {}) =>
        new GuestForms({ apiKey: readWrite, baseUrl: mischief.url, timeout: 10_000, ...options }),
      forms: (listingId) =>
        new GuestForms({ apiKey: readOnly, baseUrl: gateway.url }).forms
          .list({ listingId, limit: 100 })
          .toArray(),
      stay: () => {
        day += 1;
        return {
          listingId: listings[0]?.id ?? "",
          checkInDate: new Date(Date.UTC(2030, 0, day, 14)).toISOString(),
          checkOutDate: new Date(Date.UTC(2030, 0, day + 3, 10)),
          numberOfGuests: 2,
          guestEmail: "ana@example.com",
        };
      },
    } satisfies GatewayWorld);
  });
  beforeEach(() => {
    world.mischief.plan();
    world.mischief.always(pass);
    world.mischief.requests.length = 0;
  });
  afterAll(async () => {
    for (const close of closers.reverse()) await close();
    expect(undocumented).toEqual([]);
  });
  return world;
}
