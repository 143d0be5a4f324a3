import { beforeAll, expect, it } from "vitest";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { floodLockedListing, MAX_P99_MS, sendListsAtOnce } from "../support/noisy-tenants.js";
import { expectFast } from "../support/tenants.js";
import { startPooledGateway } from "./pooled-database.js";

describeWithBinary(
  "pgbouncer",
  "behind PgBouncer, 99 % of the requests of other key holders take less than 100 ms",
  (binary) => {
    let gateway: Awaited<ReturnType<typeof startPooledGateway>>;

    beforeAll(async () => {
      gateway = await startPooledGateway(binary);
    });

    it("while a listing is locked for 10 s and its owner sends 60 creates per second to it", () =>
      expectFast(MAX_P99_MS, () => floodLockedListing(gateway.url, gateway.services)));

    it("while a key holder sends 200 lists at once, which are all served", () =>
      expectFast(
        MAX_P99_MS,
        () => sendListsAtOnce(gateway.url, gateway.services),
        ({ rejected }) => expect(rejected).toBe(0),
      ));
  },
);
