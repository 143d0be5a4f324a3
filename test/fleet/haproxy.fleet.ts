import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import type { Agent } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { packageRoot } from "../../prisma/engine.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { freePort } from "../harness.js";
import { describeWith } from "./binaries.js";
import { Cable } from "./cable.js";
import { call, createSurely, newStay, oneConnection, startLoad, tally } from "./client.js";
import { type Host, linesWith, makeWorld, startHost, type World } from "./fleet.js";
import { makePlaces, type Place } from "./namespaces.js";
import { Server } from "./servers.js";

const CLIENTS = 12;

describeWith("haproxy", "two gateways behind HAProxy", (binary) => {
  let world: World;
  let folder: string;
  let ports: number[];
  let places: Place[];
  let databases: string[];
  let hosts: Host[];
  let url: string;
  let agents: Agent[];

  /** A gateway on a host of its own. */
  const startGateway = (index: number) =>
    startHost(
      {
        ...world.env,
        DATABASE_URL: databases[index] ?? "",
        HOST: places[index]?.address ?? "",
        PORT: String(ports[index]),
        TRUST_PROXY: "1",
        DRAIN_DELAY_SECONDS: "2",
        // How long a worker waits for the connections that HAProxy keeps without using them.
        DRAIN_SECONDS: "2",
      },
      ["--workers", "2"],
      places[index]?.within,
    );

  beforeAll(async () => {
    world = await makeWorld();
    places = await makePlaces(2);
    const cables = await Promise.all(places.map(({ test }) => Cable.lay(world.services.db.url, test)));
    databases = cables.map((cable) => cable.url);
    console.info(`hosts: ${places.map(({ address }) => address).join(", ")}`);
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
        ["10.0.0.11:3000", `${places[0]?.address}:${ports[0]}`],
        ["10.0.0.12:3000", `${places[1]?.address}:${ports[1]}`],
      ].reduce((text, [from = "", to = ""]) => replace(text, from, to), example),
    );
    hosts = await Promise.all([startGateway(0), startGateway(1)]);
    await new Server(binary, ["-f", config], port).start();
    url = `http://127.0.0.1:${port}`;
    await untilBothServe();
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));
  beforeEach(() => {
    agents = Array.from({ length: CLIENTS }, oneConnection);
  });

  const agentOf = (client: number) => agents[client] ?? oneConnection();

  /** Waits until requests reach both, as the logs of the gateways tell. */
  const untilBothServe = async () => {
    for (let tries = 1; ; tries++) {
      const offsets = hosts.map(({ process }) => process.stderr.length);
      for (let turn = 0; turn < 8; turn++)
        await call(`${url}/v1/listings`, world.key.key).catch(() => undefined);
      await sleep(20);
      const served = (host: Host, index: number) => linesWith(host, '"listings.list"', offsets[index]) > 0;
      if (hosts.every(served)) return;
      if (tries === 50) throw new Error("HAProxy does not use both gateways.");
      await sleep(100);
    }
  };

  const read = (client: number) => call(`${url}/v1/forms?limit=5`, world.key.key, { agent: agentOf(client) });

  const formsInDatabase = async () => {
    const rows = await world.services.db.prisma.form.findMany({
      where: { listingId: world.listing.id },
      select: { id: true, checkInDate: true },
    });
    return rows.map(({ id, checkInDate }) => `${id} ${checkInDate?.toISOString()}`).sort();
  };

  it("one of them killed under load: no create is lost or doubled, and no read fails", async () => {
    const known = await formsInDatabase();
    const created: { form: FormV1; attempts: number }[] = [];
    let isOver = false;
    const writers = Array.from({ length: 4 }, async (_, client) => {
      while (!isOver) {
        const body = newStay(world.listing.id);
        created.push(await createSurely(url, world.key.key, body, agentOf(client)));
      }
    });
    const reads = startLoad(8, (client) => read(client + 4));
    for (const [index, host] of [...hosts.entries()]) {
      await sleep(1_500);
      await killAll(host);
      await sleep(1_500);
      hosts[index] = await startGateway(index);
      await untilBothServe();
    }
    isOver = true;
    await Promise.all([...writers, reads.stop()]);
    const repeated = created.filter(({ attempts }) => attempts > 1).length;
    console.info(
      `killed: reads ${JSON.stringify(tally(reads))}, ${created.length} creates, ${repeated} sent again`,
    );
    expect(Object.keys(tally(reads))).toEqual(["200"]);
    const acknowledged = created.map(({ form }) => `${form.id} ${form.checkInDate}`).sort();
    expect((await formsInDatabase()).filter((form) => !known.includes(form))).toEqual(acknowledged);
  });

  const mixedLoad = () =>
    startLoad(CLIENTS, (client) => {
      if (client % 3 > 0) return read(client);
      const body = newStay(world.listing.id);
      return call(`${url}/v1/forms`, world.key.key, { method: "POST", body, agent: agentOf(client) });
    });

  it("each of them restarted worker by worker under load: no request fails", async () => {
    const load = mixedLoad();
    for (const host of hosts) {
      await sleep(500);
      process.kill(host.process.pid, "SIGHUP");
      await expect.poll(() => linesWith(host, "all workers were replaced"), { timeout: 30_000 }).toBe(1);
    }
    await sleep(500);
    await load.stop();
    console.info(`rolling restarts: ${JSON.stringify(tally(load))}`);
    expect(Object.keys(tally(load)).sort()).toEqual(["200", "201"]);
  });

  it("one of them stopped under load and started again: no request fails", async () => {
    const load = mixedLoad();
    for (const [index, host] of [...hosts.entries()]) {
      await sleep(500);
      expect((await host.process.stop("SIGTERM")).code).toBe(0);
      hosts[index] = await startGateway(index);
      await untilBothServe();
    }
    await load.stop();
    console.info(`stopped and started: ${JSON.stringify(tally(load))}`);
    expect(Object.keys(tally(load)).sort()).toEqual(["200", "201"]);
  });

  it("without any gateway the answer is an error envelope", async () => {
    await Promise.all(hosts.map(killAll));
    // On a connection that it has answered on before, HAProxy may hang up instead: the client is to try again.
    const fresh = { agent: oneConnection() };
    const { status, headers, json } = await call(`${url}/v1/listings`, world.key.key, fresh);
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

  /** As if the machine were gone: the workers end with their primary. */
  const killAll = ({ process }: Host) => process.stop("SIGKILL");
});
