import { beforeAll, describe, it } from "vitest";
import { type Fixture, makeFixture, startGatewayProcess } from "../support/gateway-processes.js";
import { floodLockedListing, sendListsAtOnce } from "../support/noisy-tenants.js";

describe("every request of other key holders and every health check of the same process succeeds", () => {
  let fixture: Fixture;
  let url: string;

  beforeAll(async () => {
    fixture = await makeFixture(undefined, { DATABASE_POOL_SIZE: "10" });
    ({ url } = await startGatewayProcess(fixture.env));
  });

  it("while a listing is locked for 10 s and its owner sends 60 creates per second to it, which succeed or get 503", async () => {
    await floodLockedListing(url, fixture.services);
  });

  it("while a key holder sends 200 lists at once, which succeed or get 503", async () => {
    await sendListsAtOnce(url, fixture.services);
  });
});
