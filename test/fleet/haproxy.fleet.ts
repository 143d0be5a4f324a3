import { writeFile } from "node:fs/promises";
import { type Agent, createServer } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, beforeEach, expect, it } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import {
  countLogLines,
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcess,
} from "../support/gateway-processes.js";
import { startHaproxy } from "../support/haproxy.js";
import {
  countOutcomes,
  createWithRetries,
  sendRequest,
  singleConnectionAgent,
  startLoad,
} from "../support/http-client.js";
import { listenLocally, restartablePort } from "../support/network.js";
import { operatingBlock, runFromPage, runScript } from "../support/operating-page.js";
import { spawnCli } from "../support/processes.js";
import { makeTempFolder } from "../support/run-tool.js";
import { uniqueStay } from "../support/stays.js";

const CLIENTS = 12;
/** Per client, so that the test leaves CPU time to the gateways that start. */
const PAUSE_MS = 20;

describeWithBinary("haproxy", "two gateways behind HAProxy", () => {
  let fixture: Fixture;
  let ports: number[];
  let gateways: GatewayProcess[];
  let url: string;
  let agents: Agent[];

  const envOf = (index: number) => ({
    ...fixture.env,
    PORT: String(ports[index]),
    TRUST_PROXY: "1",
    DRAIN_DELAY_SECONDS: "3",
  });
  const startGateway = (index: number) => startGatewayProcess(envOf(index));

  beforeAll(async () => {
    fixture = await makeFixture();
    ports = [await restartablePort(), await restartablePort()];
    gateways = await Promise.all([startGateway(0), startGateway(1)]);
    url = await startHaproxy([`127.0.0.1:${ports[0]}`, `127.0.0.1:${ports[1]}`]);
    await waitUntilBothServe();
  });
  beforeEach(() => {
    agents = Array.from({ length: CLIENTS }, singleConnectionAgent);
  });

  const agentOf = (client: number) => agents[client] ?? singleConnectionAgent();

  /** Waits until the logs of both gateways show requests. */
  const waitUntilBothServe = async () => {
    const offsets = gateways.map(({ process }) => process.stderr.length);
    for (let tries = 1; ; tries++) {
      for (let n = 0; n < 8; n++) await sendRequest(`${url}/v1/listings`, fixture.key.key).catch(() => undefined);
      await sleep(20);
      const hasServed = (gateway: GatewayProcess, index: number) =>
        countLogLines(gateway, '"listings.list"', offsets[index]) > 0;
      if (gateways.every(hasServed)) return;
      if (tries === 50) throw new Error("HAProxy does not use both gateways.");
      await sleep(100);
    }
  };

  const read = (client: number) => sendRequest(`${url}/v1/forms?limit=5`, fixture.key.key, { agent: agentOf(client) });

  const formsInDatabase = async () => {
    const rows = await fixture.services.db.prisma.form.findMany({ where: { listingId: fixture.listing.id } });
    return rows.map(({ id, checkInDate }) => `${id} ${checkInDate?.toISOString()}`).sort();
  };

  it("killing a gateway under load loses or duplicates no create and fails no read", async () => {
    const existing = await formsInDatabase();
    const created: { form: FormV1; attempts: number }[] = [];
    let isStopped = false;
    const writers = Array.from({ length: 4 }, async (_, client) => {
      while (!isStopped) {
        const body = uniqueStay(fixture.listing.id);
        created.push(await createWithRetries(url, fixture.key.key, body, agentOf(client)));
        await sleep(PAUSE_MS);
      }
    });
    const reads = startLoad(8, (client) => read(client + 4), PAUSE_MS);
    for (const [index, gateway] of [...gateways.entries()]) {
      await sleep(1_500);
      await kill(gateway);
      await sleep(1_500);
      gateways[index] = await startGateway(index);
      await waitUntilBothServe();
    }
    isStopped = true;
    await Promise.all([...writers, reads.stop()]);
    const retried = created.filter(({ attempts }) => attempts > 1).length;
    console.info(
      `killed: reads ${JSON.stringify(countOutcomes(reads))}, ${created.length} creates, ${retried} of them retried`,
    );
    expect(Object.keys(countOutcomes(reads))).toEqual(["200"]);
    const acknowledged = created.map(({ form }) => `${form.id} ${form.checkInDate}`).sort();
    expect((await formsInDatabase()).filter((form) => !existing.includes(form))).toEqual(acknowledged);
  });

  /**
   * Returns a folder with a `systemctl` that restarts a gateway. Like systemd, it waits for the end of the old process, but
   * not until the new one listens.
   */
  const makeSystemctl = async () => {
    const server = createServer(async ({ url = "" }, res) => {
      const index = ports.findIndex((port) => url === `/restart/guest-forms@${port}`);
      const stopped = await gateways[index]?.process.stop("SIGTERM");
      if (stopped?.code === 0) {
        const process = spawnCli(["serve", "--no-worker"], { env: envOf(index) });
        gateways[index] = { url: `http://127.0.0.1:${ports[index]}`, process };
      } else res.statusCode = 500;
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
    const pids = () => gateways.map(({ process }) => process.pid);
    const old = pids();
    const binFolders = [await makeSystemctl()];
    const sendOne = (client: number) => {
      if (client % 3 > 0) return read(client);
      const options = { method: "POST", body: uniqueStay(fixture.listing.id), agent: agentOf(client) };
      return sendRequest(`${url}/v1/forms`, fixture.key.key, options);
    };
    const load = startLoad(CLIENTS, sendOne, PAUSE_MS);
    await sleep(500);
    await runFromPage(operatingBlock("systemctl restart"), (script) =>
      runScript(script, { binFolders, replace: { "8001 8002": ports.join(" ") } }),
    );
    await waitUntilBothServe();
    await load.stop();
    console.info(`rolling restart: ${JSON.stringify(countOutcomes(load))}`);
    expect(Object.keys(countOutcomes(load)).sort()).toEqual(["200", "201"]);
    expect(pids().filter((pid) => old.includes(pid))).toEqual([]);
  });

  it("HAProxy returns a 503 error envelope if no gateway is available", async () => {
    await Promise.all(gateways.map(kill));
    // A new connection: HAProxy may close a reused one instead of sending a 503, because clients can retry there.
    const newConnection = { agent: singleConnectionAgent() };
    const { status, headers, json } = await sendRequest(`${url}/v1/listings`, fixture.key.key, newConnection);
    expect(status).toBe(503);
    expect(headers["retry-after"]).toBe("1");
    expect(headers["content-type"]).toBe("application/json");
    const correlationId = headers["x-correlation-id"];
    expect(correlationId).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
    expect(json).toEqual({ code: "INTERNAL_ERROR", message: "The service is briefly unavailable.", correlationId });
  });

  const kill = ({ process }: GatewayProcess) => process.stop("SIGKILL");
});
