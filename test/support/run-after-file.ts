import { afterAll, vi } from "vitest";
import "./after-file.js";

// Vitest runs this file before each test file.
afterAll(async () => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
  const cleanUps = globalThis.cleanUpsOfTestFile?.splice(0) ?? [];
  const errors: unknown[] = [];
  for (const cleanUp of cleanUps.reverse()) {
    try {
      await cleanUp();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors.length === 1 ? errors[0] : new AggregateError(errors, "clean-up failed");
});
