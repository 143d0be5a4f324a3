import { beforeAll, expect, it } from "vitest";
import { afterFile } from "../support/after-file.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { sendRequest } from "../support/http-client.js";
import { PostgresCluster } from "../support/postgres-cluster.js";
import { runSql } from "../support/run-sql.js";
import { uniqueStay } from "../support/stays.js";
import { startPooledGateway } from "./pooled-database.js";

describeWithBinary(
  "pgbouncer",
  "behind PgBouncer, whose clients do not notice that the server became a standby",
  (binary) => {
    let cluster: PostgresCluster;
    let gateway: Awaited<ReturnType<typeof startPooledGateway>>;

    beforeAll(async () => {
      cluster = await PostgresCluster.create();
      afterFile(() => cluster.remove());
      gateway = await startPooledGateway(binary, cluster.url);
    });

    it("no request is served by the standby, also with a cached key, /readyz says why, and all is served again after its promotion", async () => {
      const { url, key, listingId } = gateway;
      const reads = ["/v1/forms", `/v1/forms?listingId=${listingId}`, "/v1/listings", `/v1/listings/${listingId}`];
      const read = (path: string) => sendRequest(`${url}${path}`, key);
      const create = () => sendRequest(`${url}/v1/forms`, key, { method: "POST", body: uniqueStay(listingId) });
      const created = await create();
      const form = `/v1/forms/${(created.json as { id: string }).id}`;
      for (const path of [...reads, form]) expect([path, (await read(path)).status]).toEqual([path, 200]);
      await cluster.becomeStandby();
      // The service keeps its connections to PgBouncer: the first statements may meet the connection that PgBouncer has lost.
      await expect
        .poll(async () => (await sendRequest(`${url}/readyz`, key)).json)
        .toMatchObject({ reason: "the database is a standby" });
      for (let round = 0; round < 3; round++) {
        for (const path of [...reads, form]) expect([path, (await read(path)).status]).toEqual([path, 503]);
        expect((await create()).status).toBe(503);
      }
      await runSql(cluster.url, "SELECT pg_promote()");
      await expect.poll(async () => (await create()).status).toBe(201);
      for (const path of [...reads, form]) expect([path, (await read(path)).status]).toEqual([path, 200]);
    });
  },
);
