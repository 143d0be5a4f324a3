import { afterAll, expect, test, vi } from "vitest";
import { z } from "zod";
import { resourceId } from "../../server/values.js";
import { startTestGateway } from "../support/gateway.js";

// Test files share modules. This one replaces some of them.
vi.hoisted(() => vi.resetModules());
afterAll(() => void vi.resetModules());

// Two operations as a developer would add them: router entries, and nothing else.
vi.mock(import("../../server/router.js"), async (importOriginal) => {
  const { appRouter } = await importOriginal();
  const { readingProcedure, router, writingProcedure } = await import("../../server/trpc.js");
  const { limit } = await import("../../server/resources/paging.js");
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
  });
  return { appRouter: router({ ...routers, added }) as unknown as typeof appRouter };
});

const gateway = await startTestGateway();
const { key, readOnlyKey } = await gateway.addKeyHolder();
const FORM = "/v1/forms/a1a1a1a1-1111-4111-8111-a1a1a1a1a1a1";
const id = FORM.slice(-36);

const send = async (method: string, path: string, init: { key?: string; body?: string } = {}) => {
  const headers = { "X-API-Key": init.key ?? key };
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

test("the OpenAPI document describes both new operations, with code samples", async () => {
  const { json } = await send("GET", "/openapi.json");
  const { get } = json.paths["/v1/forms/{id}/history"];
  const { post } = json.paths["/v1/forms/{id}/remind"];
  expect(Object.keys(get.responses)).toEqual(["200", "400", "401", "404", "429", "500", "503"]);
  expect(Object.keys(post.responses)).toEqual(["202", "401", "403", "404", "429", "500", "503"]);
  expect(post.requestBody).toBeUndefined();
  expect(Object.keys(post.responses["202"].headers)).toContain("Location");
  for (const { responses } of [get, post]) {
    for (const { $ref } of Object.values<{ $ref?: string }>(responses)) {
      if ($ref) expect(json.components.responses).toHaveProperty($ref.split("/").at(-1) ?? "");
    }
  }
  const samples = [get, post].map((operation) =>
    operation["x-codeSamples"].map(({ source }: { source: string }) => source),
  );
  expect(samples[0]).toEqual([expect.stringContaining("/history?limit=50"), expect.stringContaining("history(")]);
  expect(samples[1]).toEqual([expect.stringContaining("-X POST"), expect.stringContaining("remind(")]);
});
