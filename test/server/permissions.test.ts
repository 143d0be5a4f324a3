import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { Principal, Services } from "../../server/context.js";
import { createContext } from "../../server/context.js";
import { appRouter } from "../../server/router.js";
import { createCallerFactory } from "../../server/trpc.js";
import {
  asKey,
  asUser,
  catchErrorCode,
  catchServiceError,
  keyPrincipal,
  makeForm,
  makeKey,
  makeListing,
  makeUser,
  openTestServices,
  setRole,
  type TestKey,
} from "../support/factories.js";
import { fixedStay } from "../support/stays.js";

/** The access that each procedure requires. Every new procedure must be added. */
const REQUIRED_ACCESS: Record<string, "reading" | "writing" | "inApp" | "operating"> = {
  "forms.create": "writing",
  "forms.update": "writing",
  "forms.list": "reading",
  "forms.get": "reading",
  "forms.getAny": "operating",
  "forms.listAll": "operating",
  "forms.setStatus": "inApp",
  "forms.setParty": "inApp",
  "listings.list": "reading",
  "listings.get": "reading",
  "listings.getAny": "operating",
  "listings.listAll": "operating",
  "listings.create": "operating",
  "listings.update": "operating",
  "listings.deactivate": "operating",
  "users.create": "operating",
  "users.get": "operating",
  "users.find": "operating",
  "users.list": "operating",
  "members.list": "operating",
  "members.set": "operating",
  "members.remove": "operating",
  "people.erase": "operating",
  "people.erasures": "operating",
  "people.reapply": "operating",
  "onboarding.check": "operating",
  "onboarding.write": "operating",
  "onboarding.export": "operating",
  "keys.issue": "operating",
  "keys.list": "operating",
  "keys.revoke": "operating",
  "keys.rotate": "operating",
  "notifications.list": "operating",
  "notifications.count": "operating",
  "notifications.retry": "operating",
  "audit.trail": "operating",
  "audit.trace": "operating",
  "secrets.status": "operating",
  "secrets.reencrypt": "operating",
};

let services: Services;
let readWrite: TestKey;
let readOnly: TestKey;
let listingId: string;

beforeAll(async () => {
  services = await openTestServices();
  const { id } = await makeUser(services);
  listingId = (await makeListing(services, id)).id;
  readWrite = await makeKey(services, id);
  readOnly = await makeKey(services, id, { mode: "READ_ONLY" });
});

const factory = createCallerFactory(appRouter);

/** Calls a procedure by its path with an input that no procedure accepts. */
function callWithInvalidInput(path: string, principal: Principal | null): Promise<unknown> {
  const [group = "", name = ""] = path.split(".");
  const caller = factory(createContext(services, principal)) as unknown as Record<
    string,
    Record<string, (input: unknown) => Promise<unknown>>
  >;
  const procedure = caller[group]?.[name];
  if (!procedure) throw new Error(`no procedure ${path}`);
  return procedure("invalid");
}

describe("access to procedures", () => {
  test("every procedure has an entry in REQUIRED_ACCESS", () => {
    expect(Object.keys(appRouter._def.procedures).sort()).toEqual(Object.keys(REQUIRED_ACCESS).sort());
  });

  test.each(Object.entries(REQUIRED_ACCESS))(
    "%s requires %s access, checked before its input",
    async (path, access) => {
      expect(await catchErrorCode(callWithInvalidInput(path, null))).toBe("UNAUTHENTICATED");
      const allowed = {
        reading: ["reader", "writer", "user"],
        writing: ["writer", "user"],
        inApp: ["user", "operator"],
        operating: ["operator"],
      }[access];
      const principals: Record<string, Principal> = {
        reader: keyPrincipal(readOnly),
        writer: keyPrincipal(readWrite),
        user: { kind: "user", userId: readWrite.userId },
        operator: { kind: "operator" },
      };
      for (const [who, principal] of Object.entries(principals)) {
        const call = callWithInvalidInput(path, principal);
        // This procedure takes no input, so none is invalid.
        if (path === "notifications.count" && who === "operator") await call;
        else
          expect([who, await catchErrorCode(call)]).toEqual([
            who,
            allowed.includes(who) ? "VALIDATION_ERROR" : "FORBIDDEN",
          ]);
      }
    },
  );

  test("exactly the six public operations have a REST path", () => {
    const procedures = appRouter._def.procedures as unknown as Record<
      string,
      { _def: { meta?: { openapi?: { method: string; path: string } } } }
    >;
    const routes = Object.values(procedures).flatMap(({ _def }) =>
      _def.meta?.openapi ? [`${_def.meta.openapi.method} ${_def.meta.openapi.path}`] : [],
    );
    expect(routes.sort()).toEqual([
      "GET /v1/forms",
      "GET /v1/forms/{id}",
      "GET /v1/listings",
      "GET /v1/listings/{id}",
      "POST /v1/forms",
      "PUT /v1/forms/{id}",
    ]);
  });
});

describe("a read-only key", () => {
  test("may call every read, and gets FORBIDDEN for every write whatever the body and scope", async () => {
    const form = await makeForm(services, readOnly.userId, listingId);
    const caller = asKey(services, readOnly);
    expect(await caller.forms.get({ id: form.id })).toEqual(form);
    expect((await caller.forms.list({})).items).toContainEqual(form);
    expect((await caller.listings.get({ id: listingId })).id).toBe(listingId);
    expect((await caller.listings.list({})).items).toHaveLength(1);
    const forbidden = {
      serviceCode: "FORBIDDEN",
      code: "FORBIDDEN",
      status: 403,
      message: "This key is read-only. Use a read-write key.",
      errors: undefined,
      retryAfter: undefined,
    };
    for (const target of [listingId, randomUUID()]) {
      expect(await catchServiceError(caller.forms.create(fixedStay(target)))).toEqual(forbidden);
      expect(await catchServiceError(caller.forms.update({ id: form.id, ...fixedStay(target) }))).toEqual(
        forbidden,
      );
    }
    expect(await caller.forms.get({ id: form.id })).toEqual(form);
  });
});

describe("a key and its holder as a user", () => {
  test("get the same results from all six operations", async () => {
    const user = await makeUser(services);
    const stranger = await makeUser(services);
    const [a, b] = [await makeListing(services, user.id), await makeListing(services, user.id)];
    const shared = await makeListing(services, stranger.id);
    await setRole(services, shared.id, user.id, "WRITER");
    const key = await makeKey(services, user.id);
    const callers = [asUser(services, user.id), asKey(services, key)] as const;
    const callAsBoth = async <T>(call: (caller: (typeof callers)[number]) => Promise<T>) => {
      const [first, second] = [await call(callers[0]), await call(callers[1])];
      expect(second).toEqual(first);
      return first;
    };
    const created = await callAsBoth((caller) => caller.forms.create(fixedStay(a.id)));
    const onShared = await callAsBoth((caller) => caller.forms.create(fixedStay(shared.id)));
    const updated = await callAsBoth((caller) =>
      caller.forms.update({ id: created.id, ...fixedStay(b.id, { numberOfGuests: 7 }) }),
    );
    expect(await callAsBoth((caller) => caller.forms.get({ id: created.id }))).toEqual(updated);
    const page = await callAsBoth((caller) => caller.forms.list({ limit: 1 }));
    expect(page.items).toEqual([updated]);
    const rest = await callAsBoth((caller) => caller.forms.list({ cursor: page.nextCursor ?? "" }));
    expect(rest).toEqual({ items: [onShared], nextCursor: null });
    expect(await callAsBoth((caller) => caller.listings.get({ id: a.id }))).toEqual(a);
    const listings = await callAsBoth((caller) => caller.listings.list({}));
    expect(listings.items.map(({ id }) => id)).toEqual([a.id, b.id, shared.id]);
  });
});
