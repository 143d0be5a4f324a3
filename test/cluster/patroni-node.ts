import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../../prisma/package-root.js";
import { afterFile } from "../support/after-file.js";
import { findCommand } from "../support/describe-with-binary.js";
import { InstalledPostgres } from "../support/installed-postgres.js";
import { restartablePort } from "../support/network.js";
import { operatingBlock, runFromPage } from "../support/operating-page.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { Daemon } from "./daemon.js";

const ETCD_SETTINGS = operatingBlock("ETCD_INITIAL_CLUSTER=");
const WRITE_CONFIG = operatingBlock("> /etc/patroni/config.yml");
const DISK_SIZE = "1500m";

/** What `GET /patroni` returns, in part. */
interface NodeStatus {
  role: string;
  postmaster_start_time?: string;
  /** That of the WAL that it has written or replayed. */
  timeline?: number;
  replication?: { application_name: string; state: string; sync_state: string }[];
}

/** One machine of three, with etcd, Patroni and Postgres, set up as gateway/docs/operating.md says. */
export class PatroniNode {
  /** As on the page: `postgres-1`. */
  readonly name: string;
  /** Its Postgres, its folder and its port. Patroni starts and stops it. */
  readonly postgres: InstalledPostgres;
  readonly restPort: number;
  readonly etcdPorts: { client: number; peer: number };
  #etcd: Daemon | undefined;
  #patroni: Daemon | undefined;
  /** Between its Patroni and each member of etcd. */
  #etcdProxies: TcpProxy[] = [];
  /** In front of its Postgres, for the other nodes. */
  #replicationProxy: TcpProxy | undefined;

  private constructor(n: number, postgres: InstalledPostgres, ports: [number, number, number]) {
    this.name = `postgres-${n}`;
    this.postgres = postgres;
    const [rest, client, peer] = ports;
    this.restPort = rest;
    this.etcdPorts = { client, peer };
  }

  /** `n` is 1, 2 or 3. */
  static async create(n: number): Promise<PatroniNode> {
    const binary = findCommand("postgres");
    if (!binary) throw new Error("PostgreSQL is missing: apt-get install postgresql-15.");
    const postgres = await InstalledPostgres.create(binary);
    const node = new PatroniNode(n, postgres, [
      await restartablePort(),
      await restartablePort(),
      await restartablePort(),
    ]);
    await mkdir(node.#disk);
    await node.#mountDisk();
    await node.run(`mkdir -p etcd '${node.#disk}'`);
    postgres.dataDir = join(node.#disk, "data");
    return node;
  }

  /** A file system of its own, so that it can be full. Only root can mount one. */
  async #mountDisk(): Promise<void> {
    if (process.getuid?.() !== 0) return;
    const options = `size=${DISK_SIZE},mode=755`;
    await promisify(execFile)("mount", ["-t", "tmpfs", "-o", options, "guest-forms-test", this.#disk]);
    afterFile(async () => {
      await this.postgres.kill();
      await promisify(execFile)("umount", [this.#disk]);
    });
    await promisify(execFile)("chown", ["postgres:postgres", this.#disk]);
  }

  get #disk(): string {
    return join(this.postgres.folder, "disk");
  }

  startEtcd(nodes: PatroniNode[]): void {
    const lines = ETCD_SETTINGS.trim()
      .split("\n")
      .map((line) => {
        const own = line.startsWith("ETCD_INITIAL_CLUSTER=") ? line : this.#replaceOwn(line);
        return replaceAddresses(own, nodes).replace("/var/lib/etcd/guest-forms", join(this.postgres.folder, "etcd"));
      });
    this.#etcd = new Daemon(["env", ...lines, commandPath("etcd")], {}, join(this.postgres.folder, "etcd"));
    this.#etcd.start();
  }

  /** In a line of the page or of `deploy/patroni.yml` that is about the node itself. */
  #replaceOwn = (text: string) =>
    text.replaceAll("postgres-1", this.name).replaceAll("10.0.0.21", addressOf(this.name));

  /** Writes its configuration from `deploy/patroni.yml`, with the command of the page, and starts Patroni. */
  async startPatroni(nodes: PatroniNode[]): Promise<void> {
    const { postgres } = this;
    for (const { etcdPorts } of nodes)
      this.#etcdProxies.push(await TcpProxy.start(`http://127.0.0.1:${etcdPorts.client}`));
    this.#replicationProxy = await TcpProxy.start(`http://127.0.0.1:${postgres.port}`);
    const template = join(postgres.folder, "patroni.yml");
    await writeFile(template, await this.#configure());
    const files = { "/opt/guest-forms/deploy/patroni.yml": template, "/etc/patroni/config.yml": this.#configFile };
    await runFromPage(WRITE_CONFIG, (script) => {
      let command = this.#replaceOwn(script).replaceAll(addressOf(this.name), "127.0.0.1");
      for (const [from, to] of Object.entries(files)) command = command.replaceAll(from, to);
      return this.run(command);
    });
    this.#patroni = new Daemon([commandPath("patroni"), this.#configFile], {}, postgres.folder);
    this.#patroni.start();
  }

  /** `deploy/patroni.yml` with the ports and folders of the test. */
  async #configure(): Promise<string> {
    const { postgres, restPort } = this;
    const hosts = this.#etcdProxies.map(({ url }) => new URL(url).host).join(",");
    const replace = {
      "NODE_ADDRESS:8008": `NODE_ADDRESS:${restPort}`,
      "listen: NODE_ADDRESS:5432": `listen: NODE_ADDRESS:${postgres.port}`,
      "connect_address: NODE_ADDRESS:5432": `connect_address: ${new URL(this.#replicationProxy?.url ?? "").host}`,
      // Otherwise Patroni asks etcd for its members, and does not use the proxies.
      "hosts: 10.0.0.21:2379,10.0.0.22:2379,10.0.0.23:2379": `hosts: ${hosts}\n  use_proxies: true`,
      "10.0.0.0/24": "127.0.0.1/32",
      "/var/lib/postgresql/15/guest-forms": postgres.dataDir,
      "/usr/lib/postgresql/15/bin": postgres.binFolder,
      "/var/run/postgresql": postgres.folder,
      // Each failover begins a WAL file. Those of many rounds would not fit on the disk.
      "wal_keep_size: 2GB": "wal_keep_size: 128MB",
      // The user of the system is not `postgres` if root does not run the tests.
      " peer\n": " trust\n",
    };
    let config = await readFile(join(packageRoot(), "deploy/patroni.yml"), "utf8");
    for (const [from, to] of Object.entries(replace)) {
      if (!config.includes(from)) throw new Error(`deploy/patroni.yml must have: ${from}`);
      config = config.replaceAll(from, to);
    }
    return config;
  }

  get #configFile(): string {
    return join(this.postgres.folder, "config.yml");
  }

  /** Kills Patroni and Postgres. */
  async crash(): Promise<void> {
    await Promise.all([this.#patroni?.kill(), this.postgres.kill()]);
  }

  /** Kills one process of Postgres, as the kernel does when memory is short. All others of Postgres end. */
  crashPostgres = () =>
    this.run("kill -9 $(psql -XAtc \"SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'\")");

  /** Kills its member of etcd. */
  async crashEtcd(): Promise<void> {
    await this.#etcd?.kill();
  }

  /** Starts again what was killed. Patroni starts Postgres. */
  restart(): void {
    this.#etcd?.start();
    this.#patroni?.start();
  }

  /** Suspends Patroni and Postgres until the returned function is called. */
  async freeze(): Promise<() => void> {
    const resumePatroni = this.freezePatroni();
    const resumePostgres = await this.postgres.suspend();
    return () => {
      resumePostgres();
      resumePatroni();
    };
  }

  /** Suspends Patroni, but not Postgres, until the returned function is called. */
  freezePatroni(): () => void {
    this.#patroni?.signal("SIGSTOP");
    return () => this.#patroni?.signal("SIGCONT");
  }

  /** Loses all bytes between Patroni and etcd until the returned function is called. */
  cutOffFromEtcd(): () => void {
    for (const proxy of this.#etcdProxies) proxy.freeze();
    return () => {
      for (const proxy of this.#etcdProxies) proxy.restore();
    };
  }

  /** Loses all bytes to and from the other nodes' Postgres until the returned function is called. */
  cutOffFromStandbys(): () => void {
    this.#replicationProxy?.freeze();
    return () => this.#replicationProxy?.restore();
  }

  /** Suspends the process of its Postgres that sends WAL to this standby. `crash` ends it. */
  suspendSender = ({ name }: PatroniNode) =>
    this.run(`kill -STOP $(psql -XAtc "SELECT pid FROM pg_stat_replication WHERE application_name = '${name}'")`);

  /** How many bytes of WAL it has received, as a standby. */
  readReceivedBytes = async (): Promise<number> =>
    Number(await this.run("psql -XAtc \"SELECT pg_last_wal_receive_lsn() - '0/0'\""));

  /** Without disk space, Postgres crashes at the next checkpoint, and when it needs another WAL file. Both become minutes away. */
  postponeCrash = () => this.run('psql -c "SELECT pg_switch_wal()" -c CHECKPOINT');

  /** Fills its disk. */
  fillDisk = () => this.run(`cat /dev/zero > '${this.#filler}' || true`);

  /** Begins new WAL files until Postgres cannot, and crashes. */
  useUpWal = () =>
    this.run("while psql -c \"SELECT pg_logical_emit_message(false, '', ''), pg_switch_wal()\"; do :; done");

  /** Frees what `fillDisk` has filled. */
  freeDisk = () => this.run(`rm -f '${this.#filler}'`);

  get #filler(): string {
    return join(this.#disk, "filler");
  }

  /** Asks Patroni's REST API. Rejects if it does not answer in a second. */
  async get(path: string): Promise<{ status: number; json: unknown }> {
    const response = await fetch(`http://127.0.0.1:${this.restPort}${path}`, { signal: AbortSignal.timeout(1_000) });
    return { status: response.status, json: await response.json() };
  }

  /** What Patroni says of the node. Rejects as `get` does. */
  status = async (): Promise<NodeStatus> => (await this.get("/patroni")).json as NodeStatus;

  /** Runs an operator's command on the machine, as the user `postgres`. */
  run = (command: string): Promise<string> =>
    this.postgres.run(command.replaceAll("/etc/patroni/config.yml", this.#configFile), {
      PGHOST: this.postgres.folder,
    });

  /** The end of the log of Patroni and Postgres. */
  readLog = async (): Promise<string> => (await this.#readWholeLog()).slice(-20_000);

  /** How often it has undone what the leader lacks. */
  countRewinds = async (): Promise<number> => (await this.#readWholeLog()).split("running pg_rewind from").length - 1;

  #readWholeLog = async (): Promise<string> => (await this.#patroni?.readLog()) ?? "";
}

function commandPath(name: string): string {
  const path = findCommand(name);
  if (!path) throw new Error(`${name} is missing: apt-get install patroni etcd-server etcd-client.`);
  return path;
}

/** The address of a node on the page. */
const addressOf = (name: string) => `10.0.0.2${name.at(-1)}`;

/** Replaces the addresses of etcd on the page. */
export function replaceAddresses(text: string, nodes: PatroniNode[]): string {
  let replaced = text;
  for (const { name, etcdPorts } of nodes) {
    replaced = replaced.replaceAll(`${addressOf(name)}:2379`, `127.0.0.1:${etcdPorts.client}`);
    replaced = replaced.replaceAll(`${addressOf(name)}:2380`, `127.0.0.1:${etcdPorts.peer}`);
  }
  return replaced;
}
