import { setTimeout as sleep } from "node:timers/promises";
import { expect, vi } from "vitest";
import { startPatroniHaproxy } from "../support/haproxy.js";
import { operatingBlock, runFromPage } from "../support/operating-page.js";
import { runSql } from "../support/run-sql.js";
import { PatroniNode, replaceAddresses } from "./patroni-node.js";

const CHECK_ETCD = operatingBlock("endpoint health");
const CHECK_NODES = operatingBlock("/config.yml list");
const CREATE_DATABASE = operatingBlock("CREATE ROLE guest_forms ");
const COPY_LEADER = operatingBlock("/config.yml reinit");
const SWITCH_OVER = operatingBlock("/config.yml switchover");

/** `expect.poll` works only in tests. */
const WAIT = { timeout: 90_000, interval: 100 };

/**
 * Three machines with etcd, Patroni and Postgres, and HAProxy in front of them, set up from the files of `deploy` with the
 * commands of gateway/docs/operating.md.
 */
export class PatroniCluster {
  readonly nodes: PatroniNode[];
  /** postgres:// URL of the primary through HAProxy. */
  readonly url: string;
  /** postgres:// URL of the synchronous standby through HAProxy. */
  readonly standbyUrl: string;

  private constructor(nodes: PatroniNode[], addresses: { primary: string; standby: string }) {
    this.nodes = nodes;
    this.url = `postgres://guest_forms:password@${addresses.primary}/guest_forms`;
    this.standbyUrl = `postgres://guest_forms:password@${addresses.standby}/guest_forms`;
  }

  static async create(): Promise<PatroniCluster> {
    const nodes: PatroniNode[] = [];
    for (const n of [1, 2, 3]) nodes.push(await PatroniNode.create(n));
    const [first] = nodes as [PatroniNode];
    for (const node of nodes) node.startEtcd(nodes);
    await vi.waitFor(() => runFromPage(CHECK_ETCD, (script) => first.run(replaceAddresses(script, nodes))), WAIT);
    for (const node of nodes) await node.startPatroni(nodes);
    const ports = nodes.map(({ postgres, restPort: rest }) => ({ postgres: postgres.port, rest }));
    const cluster = new PatroniCluster(nodes, await startPatroniHaproxy(ports));
    await cluster.waitUntilComplete();
    await runFromPage(CHECK_NODES, (script) => first.run(script));
    const leader = await cluster.leader();
    await leader.run(`psql -v ON_ERROR_STOP=1 <<'END'\n${CREATE_DATABASE}\nEND`);
    for (const url of [cluster.url, cluster.standbyUrl]) await vi.waitFor(() => runSql(url, "SELECT"), WAIT);
    return cluster;
  }

  /** Waits until a node other than this one holds the leader lock, and returns it. */
  leader = (except?: PatroniNode): Promise<PatroniNode> => this.#waitForNode("/primary", except);

  /** Waits until a node other than this one is the synchronous standby, and returns it. */
  synchronousStandby = (except?: PatroniNode): Promise<PatroniNode> => this.#waitForNode("/synchronous", except);

  /** Waits until a node is the asynchronous standby, and returns it. */
  asynchronousStandby = (): Promise<PatroniNode> => this.#waitForNode("/asynchronous");

  async #waitForNode(path: string, except?: PatroniNode): Promise<PatroniNode> {
    const others = this.nodes.filter((node) => node !== except);
    for (const began = performance.now(); ; await sleep(50)) {
      for (const node of others) if (await hasStatus(node, path)) return node;
      if (performance.now() - began > WAIT.timeout) throw new Error(`No node is ${path}:\n${await this.readLogs()}`);
    }
  }

  /** Asserts that HAProxy leads readers to this node. */
  async expectStandby({ postgres }: PatroniNode): Promise<void> {
    const read = () =>
      runSql(this.standbyUrl, "SELECT inet_server_port() AS port, pg_is_in_recovery() AS standby").catch(() => []);
    await vi.waitFor(async () => expect(await read()).toEqual([{ port: postgres.port, standby: true }]), WAIT);
  }

  /** Waits until gateways read forms from this node. */
  async waitUntilRead(node: PatroniNode): Promise<void> {
    const reads = `SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'guest-forms reads'
      AND query LIKE '%forms%' AND state_change > now() - interval '1 s'`;
    const isRead = () => node.run(`psql --no-align --tuples-only --command="${reads}"`);
    await vi.waitFor(async () => expect((await isRead()).trim()).toBe("t"), WAIT);
  }

  /**
   * Waits until there are a leader, a synchronous standby and another standby, both of which stream from the leader. A former leader
   * streams for a moment before it finds that it must be rewound: it is on an earlier timeline.
   */
  async waitUntilComplete(): Promise<void> {
    const check = async () => {
      const leader = await this.leader();
      const { replication = [], timeline } = await leader.status();
      const states = replication.map(({ state, sync_state }) => `${state} ${sync_state}`);
      expect(states.sort()).toEqual(["streaming async", "streaming sync"]);
      const standbys = this.nodes.filter((node) => node !== leader);
      const roles = await Promise.all(standbys.map(roleOf));
      expect(roles.sort()).toEqual(["asynchronous", "synchronous"]);
      const statuses = await Promise.all(standbys.map((node) => node.status()));
      expect(statuses.map((status) => status.timeline)).toEqual([timeline, timeline]);
    };
    try {
      await vi.waitFor(check, WAIT);
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${await this.readLogs()}`);
    }
  }

  /** Lets the synchronous standby take over, as before maintenance. */
  async switchOver(): Promise<void> {
    const leader = await this.leader();
    await runFromPage(SWITCH_OVER, (script) => leader.run(script));
  }

  /** Lets a standby delete its data and copy the leader. */
  async copyLeaderTo({ name }: PatroniNode): Promise<void> {
    const leader = await this.leader();
    await runFromPage(COPY_LEADER, (script) => leader.run(script.replace("postgres-1", name)));
  }

  /** The ends of the logs of all nodes. */
  async readLogs(): Promise<string> {
    const logs = this.nodes.map(async (node) => `${node.name}:\n${await node.readLog()}`);
    return (await Promise.all(logs)).join("\n");
  }
}

const hasStatus = (node: PatroniNode, path: string): Promise<boolean> =>
  node.get(path).then(
    ({ status }) => status === 200,
    () => false,
  );

async function roleOf(node: PatroniNode): Promise<string | undefined> {
  for (const role of ["synchronous", "asynchronous"]) if (await hasStatus(node, `/${role}`)) return role;
  return undefined;
}
