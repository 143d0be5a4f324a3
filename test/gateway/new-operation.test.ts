import { afterAll, expect, test, vi } from "vitest";
import { z } from "zod";
import { resourceId } from "../../server/values.js";
import { startTestGateway } from "../support/gateway.js";

// Test files share modules. This one replaces some of them.
vi.hoisted(() => vi.resetModules());
afterAll(() => void vi.resetModules());

// Operations as a developer would add them: router entries, and nothing else.
vi.mock(import("../../server/router.js"), async (importOriginal) => {
  const { appRouter } = await importOriginal();
  const { readingProcedure, router, writingProcedure } = await import("../../server/trpc.js");
  const { limit } = await import("../../server/resources/paging.js");
  const { idempotencyKey, idempotentReplayed, readIdempotencyKey } = await import("../../server/forms/schema.js");
  const usedKeys = new Set<string | undefined>();
  const { _def, createCaller, ...routers } = appRouter;
  const added = router({
    history: readingProcedure
      .meta({
        openapi: { method: "GET", path: "/v1/forms/{id}/history", operationId: "getFormHistory" },
        status: 200,
        codes: ["VALIDATION_ERROR", "RESOURCE_NOT_FOUND"],
      })
      .input(z.strictObject({ id: resourceId, limit }))
      .output(z.object({ id: z.string(), limit: z.number() }))
      .query(({ input }) => input),
    remind: writingProcedure
      .meta({
        openapi: { method: "POST", path: "/v1/forms/{id}/remind", operationId: "remindGuest" },
        status: 202,
        location: "/v1/forms/{id}",
        codes: ["FORBIDDEN", "RESOURCE_NOT_FOUND"],
      })
      .input(z.strictObject({ id: resourceId }))
      .output(z.object({ id: z.string() }))
      .mutation(({ input }) => input),
    remove: writingProcedure
      .meta({
        openapi: { method: "DELETE", path: "/v1/forms/{id}", operationId: "deleteForm" },
        status: 204,
        codes: ["FORBIDDEN", "RESOURCE_NOT_FOUND"],
      })
      .input(z.strictObject({ id: resourceId }))
      .output(z.void())
      .mutation(() => {}),
    byBooking: readingProcedure
      .meta({
        openapi: { method: "GET", path: "/v1/bookings/{booking}", operationId: "getBooking" },
        status: 200,
        codes: ["RESOURCE_NOT_FOUND"],
      })
      .input(z.strictObject({ booking: z.string().meta({ pattern: "^[A-Z]{2}-[0-9]{1,6}$", maxLength: 9 }) }))
      .output(z.object({ booking: z.string() }))
      .query(({ input }) => input),
    invite: writingProcedure
      .meta({
        openapi: {
          method: "POST",
          path: "/v1/invitations",
          operationId: "createInvitation",
          requestHeaders: z.object({ "Idempotency-Key": idempotencyKey }),
          responseHeaders: z.object({ "Idempotent-Replayed": idempotentReplayed }),
        },
        status: 201,
        codes: ["VALIDATION_ERROR", "FORBIDDEN", "PAYLOAD_TOO_LARGE"],
      })
      .input(z.strictObject({ guests: z.int().min(1, "must be at least 1") }))
      .output(z.object({ guests: z.int() }))
      .mutation(({ ctx, input }) => {
        const used = readIdempotencyKey(ctx);
        ctx.outcome.replayed = usedKeys.has(used);
        usedKeys.add(used);
        return input;
      }),
  });
  return { appRouter: router({ ...routers, added }) as unknown as typeof appRouter };
});

const gateway = await startTestGateway();
const { key, readOnlyKey } = await gateway.addKeyHolder();
const FORM = "/v1/forms/a1a1a1a1-1111-4111-8111-a1a1a1a1a1a1";
const id = FORM.slice(-36);

interface Sent {
  key?: string;
  body?: string;
  headers?: Record<string, string>;
}

const send = async (method: string, path: string, init: Sent = {}) => {
  const headers = { "X-API-Key": init.key ?? key, ...init.headers };
  const response = await fetch(gateway.url + path, { method, headers, body: init.body ?? null });
  const text = await response.text();
  return { status: response.status, headers: response.headers, json: text === "" ? undefined : JSON.parse(text) };
};

test("a new read operation needs only its router entry to be served over REST", async () => {
  expect((await send("GET", `${FORM}/history`)).json).toEqual({ id, limit: 50 });
  expect((await send("GET", `${FORM}/history?limit=0`, { key: readOnlyKey })).json).toEqual({ id, limit: 1 });
  expect((await send("HEAD", `${FORM}/history`)).status).toBe(200);
  const { status, json } = await send("GET", `${FORM}/history?limit=&id=1`);
  expect([status, json.errors.map(({ field }: { field: string }) => field)]).toEqual([400, ["limit", "id"]]);
  expect((await send("GET", "/v1/forms/x/history")).status).toBe(404);
});

test("a new write operation without a body needs only its router entry, and ignores a body", async () => {
  const { status, headers, json } = await send("POST", `${FORM}/remind`);
  expect([status, headers.get("location"), json]).toEqual([202, FORM, { id }]);
  expect((await send("POST", `${FORM}/remind`, { body: "{" })).status).toBe(202);
  expect((await send("POST", `${FORM}/remind`, { key: readOnlyKey })).status).toBe(403);
  const refused = await send("PUT", `${FORM}/remind`);
  expect([refused.status, refused.headers.get("allow")]).toEqual([405, "POST, OPTIONS"]);
});

test("a new operation without content needs only its router entry to answer 204 with no body", async () => {
  const { status, headers, json } = await send("DELETE", FORM);
  expect([status, json]).toEqual([204, undefined]);
  expect([headers.get("content-type"), headers.get("content-length")]).toEqual([null, null]);
  expect((await send("DELETE", FORM, { key: readOnlyKey })).status).toBe(403);
  expect((await send("PATCH", FORM)).headers.get("allow")).toBe("PUT, GET, HEAD, DELETE, OPTIONS");
});

test("a path parameter that is not a UUID is what its pattern allows, and any other value an unknown path", async () => {
  expect((await send("GET", "/v1/bookings/AB-4711")).json).toEqual({ booking: "AB-4711" });
  for (const other of ["ab-4711", "AB-4711x", "AB-1234567", "%41B-4711", "AB-4711/x", ""])
    expect((await send("GET", `/v1/bookings/${other}`)).status, other).toBe(404);
});

test("a second idempotent POST gets its Idempotency-Key checked, and reports a replay", async () => {
  const invite = (idempotencyKey: string, guests: number) =>
    send("POST", "/v1/invitations", {
      body: JSON.stringify({ guests }),
      headers: { "Content-Type": "application/json", "Idempotency-Key": idempotencyKey },
    });
  const [first, second] = [await invite("one", 2), await invite("one", 2)];
  expect([first.status, first.headers.get("idempotent-replayed")]).toEqual([201, null]);
  expect([second.status, second.headers.get("idempotent-replayed")]).toEqual([201, "true"]);
  const { status, json } = await invite("x".repeat(256), 0);
  expect([status, json.errors.map(({ field }: { field: string }) => field)]).toEqual([
    400,
    ["guests", "Idempotency-Key"],
  ]);
});

test("the OpenAPI document describes the new operations", async () => {
  const { buildDocument } = await import("../../gateway/openapi/document.js");
  const json = JSON.parse(JSON.stringify(buildDocument("1.0.0")));
  const { get } = json.paths["/v1/forms/{id}/history"];
  const { post } = json.paths["/v1/forms/{id}/remind"];
  const { delete: remove } = json.paths["/v1/forms/{id}"];
  expect(Object.keys(remove.responses)).toEqual(["204", "401", "403", "404", "429", "500", "503"]);
  expect(remove.responses["204"]).not.toHaveProperty("content");
  const [booking] = json.paths["/v1/bookings/{booking}"].get.parameters;
  expect(booking).toMatchObject({ name: "booking", in: "path", schema: { pattern: "^[A-Z]{2}-[0-9]{1,6}$" } });
  const { post: invite } = json.paths["/v1/invitations"];
  expect(invite.parameters.map(({ name }: { name: string }) => name)).toEqual(["Idempotency-Key"]);
  expect(Object.keys(invite.responses["201"].headers)).toContain("Idempotent-Replayed");
  expect(Object.keys(get.responses)).toEqual(["200", "400", "401", "404", "429", "500", "503"]);
  expect(Object.keys(post.responses)).toEqual(["202", "401", "403", "404", "429", "500", "503"]);
  expect(post.requestBody).toBeUndefined();
  expect(Object.keys(post.responses["202"].headers)).toContain("Location");
});
