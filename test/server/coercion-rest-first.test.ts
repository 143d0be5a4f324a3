import { test } from "vitest";
import { expectDirectCallsRejected, expectRestCallsRejected, makeCoercionFixture } from "./coercion.js";

test("nothing is coerced where REST comes first, then a direct caller, then REST again", async () => {
  const setting = await makeCoercionFixture();
  await expectRestCallsRejected(setting);
  await expectDirectCallsRejected(setting);
  await expectRestCallsRejected(setting);
});
