import { afterAll, test, vi } from "vitest";
import { expectDirectCallsRejected, expectRestCallsRejected, makeCoercionFixture } from "./coercion.js";

vi.hoisted(() => vi.resetModules());
afterAll(() => void vi.resetModules());

test("values are never coerced if REST runs first, then direct calls, then REST again", async () => {
  const fixture = await makeCoercionFixture();
  await expectRestCallsRejected(fixture);
  await expectDirectCallsRejected(fixture);
  await expectRestCallsRejected(fixture);
});
