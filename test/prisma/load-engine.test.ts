import { afterAll, expect, test, vi } from "vitest";
import { createTestDatabase } from "../support/database.js";

afterAll(() => void vi.resetModules());

test("modules that are loaded again use the same schema engine, which a second one would break", async () => {
  for (let copies = 1; copies <= 3; copies++) {
    vi.resetModules();
    const { migrate } = await import("../../prisma/migrate.js");
    const { url } = await createTestDatabase({ empty: true });
    expect((await migrate(url)).applied).not.toEqual([]);
  }
});
