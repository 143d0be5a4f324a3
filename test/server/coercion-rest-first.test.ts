import { test } from "vitest";
import { expectDirectCallsRejected, expectRestCallsRejected, makeCoercionFixture } from "./coercion.js";

test("values are never coerced if REST runs first, then direct calls, then REST again", async () => {
  const fixture = await makeCoercionFixture();
  await expectRestCallsRejected(fixture);
  await expectDirectCallsRejected(fixture);
  await expectRestCallsRejected(fixture);
});
