import { test } from "vitest";
import { expectDirectCallersRefused, expectRestRefused, makeSetting } from "./coercion.js";

test("nothing is coerced where REST comes first, then a direct caller, then REST again", async () => {
  const setting = await makeSetting();
  await expectRestRefused(setting);
  await expectDirectCallersRefused(setting);
  await expectRestRefused(setting);
});
