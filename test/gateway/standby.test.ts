import { afterAll, expect, test } from "vitest";
import { examine } from "../../gateway/doctor/examine.js";
import { migrate } from "../../prisma/migrate.js";
import { openServices } from "../../server/services.js";
import { startWorker } from "../../server/worker.js";
import { PostgresCluster } from "../support/postgres-cluster.js";
import { runCli } from "../support/processes.js";
import { runSql } from "../support/run-sql.js";
import { startHolderGateway } from "./holder-gateway.js";

const cluster = await PostgresCluster.create();
await migrate(cluster.url);
const { gateway, services, listingId, send, create } = await startHolderGateway({ DATABASE_URL: cluster.url });
afterAll(async () => {
  await gateway.stop();
  await cluster.remove();
});

test("a primary that restarts as a standby gets no connection: requests get 503, /readyz says why, and all is served again after its promotion", async () => {
  expect((await create()).status).toBe(201);
  await cluster.becomeStandby();
  const paths = ["/v1/forms", "/v1/listings", `/v1/listings/${listingId}`];
  for (const path of paths) {
    const { status, headers } = await send({ path });
    expect([path, status, Number(headers["retry-after"]) > 0]).toEqual([path, 503, true]);
  }
  expect((await create()).status).toBe(503);
  const reason = "the database is a standby";
  const ready = await send({ path: "/readyz" });
  expect([ready.status, ready.json]).toEqual([503, { status: "unavailable", reason }]);
  expect(gateway.log.filter(({ msg, level }) => msg === "unavailable" && level === 50).at(-1)).toMatchObject({
    reason,
    advice: "Set DATABASE_URL to the primary.",
  });
  await runSql(cluster.url, "SELECT pg_promote()");
  await expect.poll(async () => (await send({ path: "/readyz" })).status).toBe(200);
  for (const path of paths) expect((await send({ path })).status).toBe(200);
  expect((await create()).status).toBe(201);
});

test("on a standby, no process starts, no worker sends, and doctor fails", async () => {
  await cluster.becomeStandby();
  const sentence = /^(?:\w+: )?The database at 127\.0\.0\.1:\d+ is a standby: set DATABASE_URL to the primary\.$/m;
  const env = { DATABASE_URL: cluster.url, APP_SECRETS: String(gateway.settings.APP_SECRETS), PORT: "0" };
  for (const command of ["serve", "worker"]) {
    const { stderr, stdout, code } = await runCli([command], { env });
    expect([command, code, stdout]).toEqual([command, 1, ""]);
    expect(stderr).toMatch(sentence);
  }
  const ignored = { info() {}, warn() {}, error() {} };
  await expect(openServices(gateway.settings, ignored)).rejects.toThrow("the database is a standby");
  await expect(startWorker(services, ignored)).rejects.toThrow("the database is a standby");
  const [database] = await examine({ settings: gateway.settings, env: {}, processes: 1, worker: true });
  expect(database).toMatchObject({ name: "database", status: "failed", message: expect.stringMatching(sentence) });
});
