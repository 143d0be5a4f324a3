import { beforeAll, describe, it } from "vitest";
import { type Fixture, makeFixture, startGatewayProcess } from "../support/gateway-processes.js";
import { floodLockedListing, saturate, sendListsAtOnce } from "../support/noisy-tenants.js";

let fixture: Fixture;
let url: string;

beforeAll(async () => {
  fixture = await makeFixture(undefined, { DATABASE_POOL_SIZE: "10" });
  ({ url } = await startGatewayProcess(fixture.env));
});

describe("other key holders' requests and health checks of the same process take less than 100 ms (p99), and none fails", () => {
  it("while a listing is locked for 10 s and its owner sends 60 creates per second to it, which succeed or get 503", () =>
    floodLockedListing(url, fixture.services));

  it("while a key holder sends 200 lists at once", () => sendListsAtOnce(url, fixture.services));
});

it("at twice the load that a process carries, of which one of 50 key holders sends 90 %, the others' requests take less than 500 ms (p99), and none fails", () =>
  saturate(url, fixture.services));
