import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import type { Agent } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { packageRoot } from "../../prisma/engine.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { freePort } from "../harness.js";
import {
  countOutcomes,
  createWithRetries,
  sendRequest,
  singleConnectionAgent,
  startLoad,
  uniqueStay,
} from "./client.js";
import { describeWithBinary } from "./describe-with-binary.js";
import { ExternalServer } from "./external-server.js";
import {
  countLogLines,
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcess,
} from "./gateway-processes.js";
import { createNetworkHosts, type NetworkHost } from "./network-hosts.js";
import { TcpProxy } from "./tcp-proxy.js";

const CLIENTS = 12;

describeWithBinary("haproxy", "two gateways behind HAProxy", (binary) => {
  let fixture: Fixture;
  let folder: string;
  let ports: number[];
  let hosts: NetworkHost[];
  let databaseUrls: string[];
  let gateways: GatewayProcess[];
  let url: string;
  let agents: Agent[];

  const startGateway = (index: number) =>
    startGatewayProcess(
      {
        ...fixture.env,
        DATABASE_URL: databaseUrls[index] ?? "",
        HOST: hosts[index]?.address ?? "",
        PORT: String(ports[index]),
        TRUST_PROXY: "1",
        DRAIN_DELAY_SECONDS: "2",
        // A draining worker waits this long for the idle connections of HAProxy.
        DRAIN_SECONDS: "2",
      },
      ["--workers", "2"],
      hosts[index]?.commandPrefix,
    );

  beforeAll(async () => {
    fixture = await makeFixture();
    hosts = await createNetworkHosts(2);
    // Processes in a network namespace cannot reach the database on 127.0.0.1.
    const proxies = await Promise.all(
      hosts.map(({ testAddress }) => TcpProxy.start(fixture.services.db.url, testAddress)),
    );
    databaseUrls = proxies.map((proxy) => proxy.url);
    console.info(`hosts: ${hosts.map(({ address }) => address).join(", ")}`);
    ports = await Promise.all([freePort(), freePort()]);
    const port = await freePort();
    folder = await mkdtemp(join(tmpdir(), "guest-forms-haproxy-"));
    const config = join(folder, "haproxy.cfg");
    const example = await readFile(join(packageRoot(), "deploy/haproxy.cfg"), "utf8");
    const replace = (text: string, from: string, to: string) => {
      expect(text.split(from), from).toHaveLength(2);
      return text.replace(from, to);
    };
    await writeFile(
      config,
      [
        ["bind :80", `bind 127.0.0.1:${port}`],
        ["10.0.0.11:3000", `${hosts[0]?.address}:${ports[0]}`],
        ["10.0.0.12:3000", `${hosts[1]?.address}:${ports[1]}`],
      ].reduce((text, [from = "", to = ""]) => replace(text, from, to), example),
    );
    gateways = await Promise.all([startGateway(0), startGateway(1)]);
    await new ExternalServer(binary, ["-f", config], port).start();
    url = `http://127.0.0.1:${port}`;
    await waitUntilBothServe();
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));
  beforeEach(() => {
    agents = Array.from({ length: CLIENTS }, singleConnectionAgent);
  });

  const agentOf = (client: number) => agents[client] ?? singleConnectionAgent();

  /** Waits until the logs of both gateways show requests. */
  const waitUntilBothServe = async () => {
    for (let tries = 1; ; tries++) {
      const offsets = gateways.map(({ process }) => process.stderr.length);
      for (let n = 0; n < 8; n++)
        await sendRequest(`${url}/v1/listings`, fixture.key.key).catch(() => undefined);
      await sleep(20);
      const hasServed = (gateway: GatewayProcess, index: number) =>
        countLogLines(gateway, '"listings.list"', offsets[index]) > 0;
      if (gateways.every(hasServed)) return;
      if (tries === 50) throw new Error("HAProxy does not use both gateways.");
      await sleep(100);
    }
  };

  const read = (client: number) =>
    sendRequest(`${url}/v1/forms?limit=5`, fixture.key.key, { agent: agentOf(client) });

  const formsInDatabase = async () => {
    const rows = await fixture.services.db.prisma.form.findMany({
      where: { listingId: fixture.listing.id },
      select: { id: true, checkInDate: true },
    });
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
      }
    });
    const reads = startLoad(8, (client) => read(client + 4));
    for (const [index, gateway] of [...gateways.entries()]) {
      await sleep(1_500);
      await killAll(gateway);
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

  const mixedLoad = () =>
    startLoad(CLIENTS, (client) => {
      if (client % 3 > 0) return read(client);
      const body = uniqueStay(fixture.listing.id);
      return sendRequest(`${url}/v1/forms`, fixture.key.key, {
        method: "POST",
        body,
        agent: agentOf(client),
      });
    });

  it("a rolling restart of each gateway's workers under load fails no request", async () => {
    const load = mixedLoad();
    for (const gateway of gateways) {
      await sleep(500);
      process.kill(gateway.process.pid, "SIGHUP");
      await expect
        .poll(() => countLogLines(gateway, "all workers were replaced"), { timeout: 30_000 })
        .toBe(1);
    }
    await sleep(500);
    await load.stop();
    console.info(`rolling restarts: ${JSON.stringify(countOutcomes(load))}`);
    expect(Object.keys(countOutcomes(load)).sort()).toEqual(["200", "201"]);
  });

  it("stopping a gateway gracefully under load and starting it again fails no request", async () => {
    const load = mixedLoad();
    for (const [index, gateway] of [...gateways.entries()]) {
      await sleep(500);
      expect((await gateway.process.stop("SIGTERM")).code).toBe(0);
      gateways[index] = await startGateway(index);
      await waitUntilBothServe();
    }
    await load.stop();
    console.info(`stopped and started: ${JSON.stringify(countOutcomes(load))}`);
    expect(Object.keys(countOutcomes(load)).sort()).toEqual(["200", "201"]);
  });

  it("HAProxy returns a 503 error envelope if no gateway is available", async () => {
    await Promise.all(gateways.map(killAll));
    // A new connection: HAProxy may close a reused one instead of sending a 503, because clients can retry there.
    const newConnection = { agent: singleConnectionAgent() };
    const { status, headers, json } = await sendRequest(`${url}/v1/listings`, fixture.key.key, newConnection);
    expect(status).toBe(503);
    expect(headers["retry-after"]).toBe("1");
    expect(headers["content-type"]).toBe("application/json");
    const correlationId = headers["x-correlation-id"];
    expect(correlationId).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
    expect(json).toEqual({
      code: "INTERNAL_ERROR",
      message: "The service is briefly unavailable.",
      correlationId,
    });
  });

  /** Kills the primary; its workers exit with it, as if the machine had failed. */
  const killAll = ({ process }: GatewayProcess) => process.stop("SIGKILL");
});
