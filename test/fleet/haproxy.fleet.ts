import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, it } from "vitest";
import { expectNothingLost } from "../support/acknowledged.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { makeListing } from "../support/factories.js";
import { type Fixture, makeFixture } from "../support/gateway-processes.js";
import { sendRequest, singleConnectionAgent } from "../support/http-client.js";
import { listenLocally } from "../support/network.js";
import { operatingBlock, runFromPage, runScript } from "../support/operating-page.js";
import { makeTempFolder } from "../support/run-tool.js";
import { countStatuses, Traffic } from "../support/traffic.js";
import { type BalancedFleet, startBalancedFleet } from "./balanced-fleet.js";

/** So many that the test leaves CPU time to the gateways that start. */
const PER_SECOND = 100;

describeWithBinary("haproxy", "two gateways behind HAProxy", () => {
  let fixture: Fixture;
  let fleet: BalancedFleet;

  beforeAll(async () => {
    fixture = await makeFixture();
    fleet = await startBalancedFleet(fixture.env, fixture.key.key);
  });

  /** Starts clients that create forms on a new listing, and read. */
  const startClients = async (options: { expectsConnectionErrors?: boolean } = {}) => {
    const listingIds = [(await makeListing(fixture.services, fixture.userId)).id];
    const mix = { create: 4, repeat: 0, update: 0, list: 4, fetch: 2, listing: 2 };
    const key = fixture.key.key;
    const traffic = new Traffic({
      urls: [fleet.url],
      key,
      listingIds,
      perSecond: PER_SECOND,
      mix,
      seed: 1,
      ...options,
    });
    const expectStored = () => expectNothingLost(traffic, fixture.services.db.url, { listingIds });
    return { traffic, expectStored };
  };

  it("killing a gateway under load loses or duplicates no create and fails no read", async () => {
    const { traffic, expectStored } = await startClients({ expectsConnectionErrors: true });
    for (const gateway of fleet.gateways) {
      await sleep(1_500);
      await gateway.kill();
      await sleep(1_500);
      await gateway.start();
      await fleet.waitUntilServing(gateway);
    }
    await expectStored();
    console.info(`killed: ${JSON.stringify(countStatuses(traffic.samples))}`);
    const reads = traffic.samples.filter(({ kind }) => kind !== "create");
    expect(Object.keys(countStatuses(reads))).toEqual(["200"]);
  });

  /**
   * Returns a folder with a `systemctl` that restarts a gateway. Like systemd, it waits for the end of the old process, but
   * not until the new one listens.
   */
  const makeSystemctl = async () => {
    const server = createServer(async ({ url }, res) => {
      const gateway = fleet.gateways.find(({ name }) => url === `/restart/guest-forms@${name}`);
      const stopped = await gateway?.stop();
      if (stopped?.code === 0) void gateway?.start();
      else res.statusCode = 500;
      res.end();
    });
    const port = await listenLocally(server);
    server.unref();
    const folder = await makeTempFolder("systemctl");
    const script = `#!/bin/sh\ncurl --fail --silent --show-error "http://127.0.0.1:${port}/$1/$2"\n`;
    await writeFile(join(folder, "systemctl"), script, { mode: 0o755 });
    return folder;
  };

  it("the rolling restart of operating.md under load replaces every process and fails no request", async () => {
    const pids = () => fleet.gateways.map(({ pid }) => pid);
    const old = pids();
    const binFolders = [await makeSystemctl()];
    const { traffic, expectStored } = await startClients();
    await sleep(500);
    await runFromPage(operatingBlock("systemctl restart"), (script) =>
      runScript(script, { binFolders, replace: { "8001 8002": fleet.ports.join(" ") } }),
    );
    for (const gateway of fleet.gateways) await fleet.waitUntilServing(gateway);
    await expectStored();
    console.info(`rolling restart: ${JSON.stringify(countStatuses(traffic.samples))}`);
    expect(Object.keys(countStatuses(traffic.samples))).toEqual(["200", "201"]);
    expect(pids().filter((pid) => old.includes(pid))).toEqual([]);
  });

  it("HAProxy returns a 503 error envelope if no gateway is available", async () => {
    await fleet.stop();
    // A new connection: HAProxy may close a reused one instead of sending a 503, because clients can retry there.
    const newConnection = { agent: singleConnectionAgent() };
    const { status, headers, json } = await sendRequest(`${fleet.url}/v1/listings`, fixture.key.key, newConnection);
    expect(status).toBe(503);
    expect(headers["retry-after"]).toBe("1");
    expect(headers["content-type"]).toBe("application/json");
    const correlationId = headers["x-correlation-id"];
    expect(correlationId).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
    expect(json).toEqual({ code: "INTERNAL_ERROR", message: "The service is briefly unavailable.", correlationId });
  });
});
