import { afterAll, test, vi } from "vitest";
import { expectDirectCallsRejected, expectRestCallsRejected, makeCoercionFixture } from "./coercion.js";

// trpc-to-openapi changes schemas in place, so each order has its own file, with modules that no other file has used.
vi.hoisted(() => vi.resetModules());
afterAll(() => void vi.resetModules());

test("values are never coerced if direct calls run first, then REST, then direct calls again", async () => {
  const fixture = await makeCoercionFixture();
  await expectDirectCallsRejected(fixture);
  await expectRestCallsRejected(fixture);
  await expectDirectCallsRejected(fixture);
});
