import { test } from "vitest";
import { expectDirectCallsRejected, expectRestCallsRejected, makeCoercionFixture } from "./coercion.js";

// trpc-to-openapi changes the schemas that it is given, in place: a file of its own for each order of events.
test("nothing is coerced where a direct caller comes first, then REST, then a direct caller again", async () => {
  const setting = await makeCoercionFixture();
  await expectDirectCallsRejected(setting);
  await expectRestCallsRejected(setting);
  await expectDirectCallsRejected(setting);
});
