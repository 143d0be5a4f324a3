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
import { createTestDatabase } from "../harness.js";
import { type FaultProxy, passThrough, startFaultProxy } from "./fault-proxy.js";

interface GatewayContext {
  /** URL of the gateway, bypassing the proxy. */
  url: string;
  proxy: FaultProxy;
  readWrite: string;
  readOnly: string;
  /** Listings of the key holder, oldest first. */
  listings: Listing[];
  /** tRPC caller with the operator's permissions. */
  core: Caller;
  /** Holder of both keys. */
  userId: string;
  client(options?: ClientOptions): GuestForms;
  /** Lists all forms, bypassing the proxy. */
  forms(listingId?: string): Promise<FormV1[]>;
  /** A form input that no other test uses. */
  uniqueStay(): FormInput & { checkInDate: string };
}

/** Starts the gateway with its own database behind a fault proxy, once per test file. */
export function useGateway(env: () => Record<string, string> = () => ({})): GatewayContext {
  const context = {} as GatewayContext;
  const closers: (() => Promise<void>)[] = [];
  /** Responses that do not match the OpenAPI document. */
  const documentMismatches: unknown[] = [];
  let day = 0;
  beforeAll(async () => {
    const { url: DATABASE_URL } = await createTestDatabase();
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
    const proxy = await startFaultProxy(gateway.url, (method, path, { status, headers, body }) => {
      try {
        validateResponse(method, path, status, headers, body ? JSON.parse(body) : undefined);
      } catch (error) {
        documentMismatches.push(error);
      }
    });
    closers.push(() => proxy.close());
    Object.assign(context, {
      url: gateway.url,
      proxy,
      readWrite,
      readOnly,
      listings,
      core,
      userId,
      client: (options: ClientOptions = {}) =>
        new GuestForms({ apiKey: readWrite, baseUrl: proxy.url, timeout: 10_000, ...options }),
      forms: (listingId) =>
        new GuestForms({ apiKey: readOnly, baseUrl: gateway.url }).forms
          .list({ listingId, limit: 100 })
          .toArray(),
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
  afterAll(async () => {
    for (const close of closers.reverse()) await close();
    expect(documentMismatches).toEqual([]);
  });
  return context;
}
