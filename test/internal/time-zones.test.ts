import { expect, test } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { asOperator, fixedStay, makeListing, makeUser, openTestServices } from "../factories.js";
import { createTestDatabase, spawnCli } from "../harness.js";

test.each(["Asia/Kolkata", "America/St_Johns", "Pacific/Kiritimati"])(
  "a service in %s with a database in New York stores and returns every instant in UTC",
  async (TZ) => {
    const { url: DATABASE_URL } = await createTestDatabase();
    const services = await openTestServices({ DATABASE_URL, APP_SECRETS: "" });
    const { id: userId } = await makeUser(services);
    const { id: listingId } = await makeListing(services, userId);
    const { key } = await asOperator(services).keys.issue({ userId, mode: "READ_WRITE" });
    const service = spawnCli(["serve", "--json", "--no-worker"], { env: { DATABASE_URL, PORT: "0", TZ } });
    const [, text = ""] = await service.waitForLine(/^(\{"url".+\})$/, 60_000);
    const began = Date.now();
    const response = await fetch(`${JSON.parse(text).url}/v1/forms`, {
      method: "POST",
      headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
      body: JSON.stringify(
        // The second is in an hour that does not exist in New York, because clocks go forward.
        fixedStay(listingId, {
          checkInDate: "2027-01-31T23:30:00.007+05:30",
          checkOutDate: "2027-03-14T02:30:00-05:00",
        }),
      ),
    });
    const form = (await response.json()) as FormV1;
    expect([form.checkInDate, form.checkOutDate]).toEqual([
      "2027-01-31T18:00:00.007Z",
      "2027-03-14T07:30:00.000Z",
    ]);
    expect(Math.abs(Date.parse(form.createdAt) - began)).toBeLessThan(60_000);
    const { rows } = await services.db.pool.query(
      "SELECT current_setting('TimeZone') AS zone, check_in_date AS begin, check_out_date AS end FROM forms",
    );
    expect(rows).toEqual([
      { zone: "UTC", begin: new Date(form.checkInDate ?? 0), end: new Date(form.checkOutDate ?? 0) },
    ]);
    await service.stop();
  },
  60_000,
);
