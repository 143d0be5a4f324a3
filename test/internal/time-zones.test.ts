import { afterEach, expect, test, vi } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { makeListing } from "../support/factories.js";
import { startTestGateway } from "../support/gateway.js";
import { fixedStay } from "../support/stays.js";

afterEach(() => void vi.unstubAllEnvs());

test.each([
  ["Asia/Kolkata", -330],
  ["America/St_Johns", 210],
  ["Pacific/Kiritimati", -840],
])(
  "a service in %s with a database in New York stores and returns every instant in UTC",
  async (zone, offsetMinutes) => {
    vi.stubEnv("TZ", zone);
    expect(new Date("2027-01-31").getTimezoneOffset()).toBe(offsetMinutes);
    const gateway = await startTestGateway();
    const { userId, key } = await gateway.addKeyHolder();
    const services = await gateway.services();
    const { id } = await makeListing(services, userId);
    const began = Date.now();
    const body = fixedStay(id, {
      checkInDate: "2027-01-31T23:30:00.007+05:30",
      // In an hour that does not exist in New York, because clocks go forward.
      checkOutDate: "2027-03-14T02:30:00-05:00",
    });
    const { json } = await gateway.request({ method: "POST", path: "/v1/forms", key, body });
    const { checkInDate, checkOutDate, createdAt } = json as FormV1;
    expect([checkInDate, checkOutDate]).toEqual(["2027-01-31T18:00:00.007Z", "2027-03-14T07:30:00.000Z"]);
    expect(Math.abs(Date.parse(createdAt) - began)).toBeLessThan(60_000);
    const { rows } = await services.db.pool.query(
      "SELECT current_setting('TimeZone') AS zone, check_in_date AS begin, check_out_date AS end FROM forms",
    );
    expect(rows).toEqual([
      { zone: "UTC", begin: new Date(checkInDate ?? 0), end: new Date(checkOutDate ?? 0) },
    ]);
  },
);
