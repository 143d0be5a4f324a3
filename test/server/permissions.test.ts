import { describe, expect, test } from "vitest";
import type { Principal } from "../../server/access/context.js";
import { appRouter } from "../../server/router.js";
import { openTestCore } from "../support/core.js";
import { callProcedure, catchErrorCode, keyPrincipal } from "../support/factories.js";

type Access = "reading" | "writing" | "inApp" | "guestPage" | "operating";

/** The access that procedures require. All others require that of the operator. */
const REQUIRED_ACCESS: Record<string, Access> = {
  "forms.create": "writing",
  "forms.update": "writing",
  "forms.list": "reading",
  "forms.get": "reading",
  "forms.setStatus": "inApp",
  "forms.setParty": "inApp",
  "forms.getByPublicId": "guestPage",
  "forms.setPartyByPublicId": "guestPage",
  "forms.completeByPublicId": "guestPage",
  "listings.list": "reading",
  "listings.get": "reading",
};
const procedures = Object.keys(appRouter._def.procedures);
/** A user's own, the operator's and any user's. */
for (const path of procedures) if (path.startsWith("webhooks.")) REQUIRED_ACCESS[path] = "inApp";

const { services, owner, makeKey } = await openTestCore();
const { userId } = owner;
const readWrite = await makeKey(userId);
const readOnly = await makeKey(userId, { mode: "READ_ONLY" });

/** Calls a procedure by its path with an input that no procedure accepts. */
const callWithInvalidInput = (path: string, principal: Principal | null) =>
  callProcedure(services, path, principal, "invalid");

describe("access to procedures", () => {
  test("every procedure is examined", () => {
    expect(procedures).toEqual(expect.arrayContaining(Object.keys(REQUIRED_ACCESS)));
    expect(procedures.length).toBeGreaterThan(30);
  });

  test.each(procedures.map((path) => [path, REQUIRED_ACCESS[path] ?? "operating"] as const))(
    "%s requires %s access, checked before its input",
    async (path, access) => {
      expect(await catchErrorCode(callWithInvalidInput(path, null))).toBe("UNAUTHENTICATED");
      const allowed = {
        reading: ["reader", "writer", "user"],
        writing: ["writer", "user"],
        inApp: ["user", "operator"],
        guestPage: ["guest", "operator"],
        operating: ["operator"],
      }[access];
      const principals: Record<string, Principal> = {
        reader: keyPrincipal(readOnly),
        writer: keyPrincipal(readWrite),
        user: owner.principal,
        operator: { kind: "operator" },
        guest: { kind: "guest" },
      };
      for (const [who, principal] of Object.entries(principals)) {
        const call = callWithInvalidInput(path, principal);
        // These procedures take no input, so none is invalid.
        if (["emails.count", "emails.retryFailed", "emails.dismissAll"].includes(path) && who === "operator")
          await call;
        else {
          const code = allowed.includes(who) ? "VALIDATION_ERROR" : "FORBIDDEN";
          expect([who, await catchErrorCode(call)]).toEqual([who, code]);
        }
      }
    },
  );

  test("exactly the public operations have a REST path", () => {
    interface Meta {
      openapi?: { method: string; path: string };
    }
    const all = Object.values(appRouter._def.procedures) as unknown as { _def: { meta?: Meta } }[];
    const routes = all.flatMap(({ _def: { meta } }) =>
      meta?.openapi ? [`${meta.openapi.method} ${meta.openapi.path}`] : [],
    );
    const onForms = ["GET /v1/forms", "GET /v1/forms/{id}", "POST /v1/forms", "PUT /v1/forms/{id}"];
    expect(routes.sort()).toEqual([...onForms, "GET /v1/listings", "GET /v1/listings/{id}"].sort());
  });
});
