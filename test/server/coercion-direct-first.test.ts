import { test } from "vitest";
import { expectDirectCallsRejected, expectRestCallsRejected, makeCoercionFixture } from "./coercion.js";

// Each order has its own file, because trpc-to-openapi changes schemas in place and modules are loaded once per file.
test("values are never coerced if direct calls run first, then REST, then direct calls again", async () => {
  const fixture = await makeCoercionFixture();
  await expectDirectCallsRejected(fixture);
  await expectRestCallsRejected(fixture);
  await expectDirectCallsRejected(fixture);
});
