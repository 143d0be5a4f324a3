import { beforeAll, it } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { type Fixture, makeFixture, startGatewayProcess } from "../support/gateway-processes.js";
import { floodLockedListing, sendListsAtOnce } from "../support/noisy-tenants.js";
import { reconnect, startPooledDatabase } from "./pooled-database.js";

/** As gateway/docs/operating.md says: at least the connections of all processes. */
const SESSIONS = 20;

/**
 * More than in isolation.fault.ts: without prepared statements, Postgres parses and plans each one, so the creates that waited
 * for the lock use all of two cores for a moment when it ends.
 */
const MAX_LOCKED_P99_MS = 500;

describeWithBinary(
  "pgbouncer",
  "behind PgBouncer, no request of other key holders fails, and 99 % take less than the stated time",
  (binary) => {
    let fixture: Fixture;
    let url: string;

    beforeAll(async () => {
      const pooled = await startPooledDatabase(binary, SESSIONS);
      await migrate(pooled.directUrl);
      await reconnect(pooled);
      fixture = await makeFixture(pooled.directUrl, {
        DATABASE_URL: pooled.url,
        DATABASE_DIRECT_URL: pooled.directUrl,
        DATABASE_PREPARED: "false",
        DATABASE_POOL_SIZE: "10",
      });
      ({ url } = await startGatewayProcess(fixture.env));
    });

    it("500 ms while a listing is locked for 10 s and its owner sends 60 creates per second to it", () =>
      floodLockedListing(url, fixture.services, MAX_LOCKED_P99_MS));

    it("100 ms while a key holder sends 200 lists at once", () => sendListsAtOnce(url, fixture.services));
  },
);
