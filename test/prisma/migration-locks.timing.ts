import { expect, test } from "vitest";
import { migrateWhileBlocked } from "./blocked-migration.js";

const MAX_DELAY_MS = 500;

test("a migration of a table that another transaction holds delays no request by 0.5 s", async () => {
  const { readsMs } = await migrateWhileBlocked();
  expect(Math.max(...readsMs)).toBeLessThan(MAX_DELAY_MS);
});
