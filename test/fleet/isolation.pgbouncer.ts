import { beforeAll, it } from "vitest";
import { prepareDatabase } from "../../gateway/run/prepare-database.js";
import { readSettings } from "../../server/config.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { TEST_SECRET } from "../support/factories.js";
import { type Fixture, makeFixture, startGatewayProcess } from "../support/gateway-processes.js";
import { floodLockedListing, sendListsAtOnce } from "../support/noisy-tenants.js";
import { reconnect, startPooledDatabase } from "./pooled-database.js";

/** As gateway/docs/operating.md says: at least the connections of all processes. */
const SESSIONS = 20;

describeWithBinary(
  "pgbouncer",
  "behind PgBouncer, no request of other key holders fails, and 99 % take less than 100 ms more than /livez",
  (binary) => {
    let fixture: Fixture;
    let url: string;

    beforeAll(async () => {
      const pooled = await startPooledDatabase(binary, SESSIONS);
      const env = {
        DATABASE_URL: pooled.url,
        DATABASE_DIRECT_URL: pooled.directUrl,
        DATABASE_PREPARED: "false",
        DATABASE_POOL_SIZE: "10",
      };
      await prepareDatabase({ ...readSettings(env), DATABASE_URL: pooled.url, APP_SECRETS: [TEST_SECRET] }, () => {});
      await reconnect(pooled);
      fixture = await makeFixture(pooled.directUrl, env);
      ({ url } = await startGatewayProcess(fixture.env));
    });

    it("while a listing is locked for 10 s and its owner sends 60 creates per second to it", () =>
      floodLockedListing(url, fixture.services));

    it("while a key holder sends 200 lists at once", () => sendListsAtOnce(url, fixture.services));
  },
);
