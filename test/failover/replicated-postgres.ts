import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, vi } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { findCommand } from "../support/describe-with-binary.js";
import { ExternalServer } from "../support/external-server.js";
import { restartablePort } from "../support/network.js";
import { runFromPage } from "../support/operating-page.js";
import { runSql } from "../support/run-sql.js";
import { makeTempFolder } from "../support/run-tool.js";
import { copyDataFolder } from "./copy-data-folder.js";
import {
  ACCESS_RULES,
  CONTINUE_WITHOUT_STANDBY,
  DELETE_DATA,
  MAKE_SYNCHRONOUS,
  PROMOTE,
  ROLES_AND_CHECK,
  SETTINGS,
} from "./operating-page.js";
import { findPostgres, PostgresServer, REPLICATION_PASSWORD } from "./postgres-server.js";

export interface ReplicatedPostgresOptions {
  version: "15" | "18";
  /** Additional environment variables of the server that is the standby at first. */
  standbyEnv?: Record<string, string>;
}

/** A primary and its synchronous standby behind HAProxy, set up and operated with the commands of gateway/docs/operating.md. */
export class ReplicatedPostgres {
  /** postgres:// URL through HAProxy. */
  readonly url: string;
  primary: PostgresServer;
  standby: PostgresServer;
  readonly #proxy: ExternalServer;

  private constructor(
    url: string,
    [primary, standby]: [PostgresServer, PostgresServer],
    proxy: ExternalServer,
  ) {
    this.url = url;
    this.primary = primary;
    this.standby = standby;
    this.#proxy = proxy;
  }

  static async create({ version, standbyEnv }: ReplicatedPostgresOptions): Promise<ReplicatedPostgres> {
    const folder = await makeTempFolder("failover");
    // If the test runs as root, Postgres runs as another user.
    await chmod(folder, 0o755);
    const program = await findPostgres(version, folder);
    const primary = await PostgresServer.create(program, join(folder, "one"));
    const standby = await PostgresServer.create(program, join(folder, "other"), standbyEnv);
    await primary.initialize(ACCESS_RULES.replaceAll("10.0.0.0/24", "127.0.0.1/32"), SETTINGS);
    await primary.start();
    await primary.query(ROLES_AND_CHECK.replace("'PASSWORD'", `'${REPLICATION_PASSWORD}'`));
    const port = await restartablePort();
    const proxy = await startHaproxy(folder, port, [primary, standby]);
    const url = primary.url.replace(`:${primary.port}/`, `:${port}/`);
    const replicated = new ReplicatedPostgres(url, [primary, standby], proxy);
    await replicated.attachStandby();
    // Until HAProxy has accepted the primary.
    await vi.waitFor(() => runSql(url, "SELECT"), WAIT);
    return replicated;
  }

  /** Copies the primary to the standby, starts it, and makes the replication synchronous. */
  async attachStandby(): Promise<void> {
    const { primary, standby } = this;
    await copyDataFolder(primary, standby);
    await standby.start();
    await waitForReplication(primary, { state: "streaming" });
    await runFromPage(MAKE_SYNCHRONOUS, (script) => primary.run(script));
    await waitForReplication(primary, { state: "streaming", sync_state: "sync" });
  }

  /** Promotes the standby; the roles are swapped. Returns `performance.now()` when the promotion is complete. */
  async promoteStandby(): Promise<number> {
    const { primary, standby } = this;
    await runFromPage(PROMOTE, (script) => standby.run(script));
    const promotedAt = performance.now();
    [this.primary, this.standby] = [standby, primary];
    return promotedAt;
  }

  /** Makes the old primary, which is down, the synchronous standby of the new one. */
  async rebuildStandby(): Promise<void> {
    await runFromPage(DELETE_DATA, (script) => this.standby.run(script));
    await this.attachStandby();
  }

  /** Continues with the primary alone. */
  async continueWithoutStandby(): Promise<void> {
    await runFromPage(CONTINUE_WITHOUT_STANDBY, (script) => this.primary.run(script));
  }

  async remove(): Promise<void> {
    await Promise.all([this.#proxy.kill(), this.primary.kill(), this.standby.kill()]);
  }
}

/** `expect.poll` works only in tests. */
const WAIT = { timeout: 30_000, interval: 20 };

const waitForReplication = (primary: PostgresServer, state: { state: string; sync_state?: string }) =>
  vi.waitFor(async () => {
    expect(await primary.query("SELECT state, sync_state FROM pg_stat_replication")).toMatchObject([state]);
  }, WAIT);

async function startHaproxy(
  folder: string,
  port: number,
  servers: PostgresServer[],
): Promise<ExternalServer> {
  let config = await readFile(join(packageRoot(), "deploy/haproxy-postgres.cfg"), "utf8");
  const replace = (from: string, to: string) => {
    expect(config.split(from), from).toHaveLength(2);
    config = config.replace(from, to);
  };
  replace("bind :5432", `bind 127.0.0.1:${port}`);
  for (const [index, server] of servers.entries())
    replace(`10.0.0.2${index + 1}:5432`, `127.0.0.1:${server.port}`);
  const path = join(folder, "haproxy.cfg");
  await writeFile(path, config);
  const binary = findCommand("haproxy");
  if (!binary) throw new Error("HAProxy is missing: apt-get install haproxy.");
  const proxy = new ExternalServer(binary, ["-f", path], port);
  await proxy.start();
  return proxy;
}
