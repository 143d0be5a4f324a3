import { beforeAll, it } from "vitest";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { floodLockedListing, sendListsAtOnce } from "../support/noisy-tenants.js";
import { startPooledGateway } from "./pooled-database.js";

describeWithBinary("pgbouncer", "behind PgBouncer, every request of other key holders succeeds", (binary) => {
  let gateway: Awaited<ReturnType<typeof startPooledGateway>>;

  beforeAll(async () => {
    gateway = await startPooledGateway(binary);
  });

  it("while a listing is locked for 10 s and its owner sends 60 creates per second to it", async () => {
    await floodLockedListing(gateway.url, gateway.services);
  });

  it("while a key holder sends 200 lists at once", async () => {
    await sendListsAtOnce(gateway.url, gateway.services);
  });
});
