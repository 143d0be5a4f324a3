import { expect, vi } from "vitest";
import { findCommand } from "../support/describe-with-binary.js";
import { startPostgresHaproxy } from "../support/haproxy.js";
import { InstalledPostgres } from "../support/installed-postgres.js";
import { operatingBlock, runFromPage } from "../support/operating-page.js";
import { runSql } from "../support/run-sql.js";

// All code of "Fail over to a standby" in gateway/docs/operating.md, in its order.
const ACCESS_RULES = operatingBlock("host  replication");
const SETTINGS = operatingBlock("wal_retrieve_retry_interval");
const ROLES_AND_CHECK = operatingBlock("CREATE FUNCTION can_commit()");
const COPY_PRIMARY = operatingBlock("--write-recovery-conf");
const MAKE_SYNCHRONOUS = operatingBlock("synchronous_standby_names = 'standby'");
const PROMOTE = operatingBlock("SELECT pg_promote()");
const DELETE_DATA = operatingBlock("rm -rf");
const CONTINUE_WITHOUT_STANDBY = operatingBlock("SET synchronous_standby_names = ''");

const PASSWORD = "not-a-secret";
/** `expect.poll` works only in tests. */
const WAIT = { timeout: 30_000, interval: 20 };

/** A primary and its synchronous standby behind HAProxy, set up and operated with the commands of gateway/docs/operating.md. */
export class ReplicatedPostgres {
  /** postgres:// URL through HAProxy. */
  readonly url: string;
  primary: InstalledPostgres;
  standby: InstalledPostgres;

  private constructor(address: string, primary: InstalledPostgres, standby: InstalledPostgres) {
    this.url = primary.url().replace(`127.0.0.1:${primary.port}`, address);
    this.primary = primary;
    this.standby = standby;
  }

  static async create(): Promise<ReplicatedPostgres> {
    const binary = findCommand("postgres");
    if (!binary) throw new Error("PostgreSQL is missing: apt-get install postgresql-15.");
    const [primary, standby] = [await InstalledPostgres.create(binary), await InstalledPostgres.create(binary)];
    await primary.initialize(SETTINGS, ACCESS_RULES.replaceAll("10.0.0.0/24", "127.0.0.1/32"));
    await primary.start();
    await primary.query(ROLES_AND_CHECK.replace("'PASSWORD'", `'${PASSWORD}'`));
    const address = await startPostgresHaproxy([`127.0.0.1:${primary.port}`, `127.0.0.1:${standby.port}`]);
    const replicated = new ReplicatedPostgres(address, primary, standby);
    await replicated.attachStandby();
    // Until HAProxy has accepted the primary.
    await vi.waitFor(() => runSql(replicated.url, "SELECT"), WAIT);
    return replicated;
  }

  /** Copies the primary to the standby, starts it, and makes the replication synchronous. */
  async attachStandby(): Promise<void> {
    const { primary, standby } = this;
    const command = COPY_PRIMARY.replace("host=10.0.0.21", `host=127.0.0.1 port=${primary.port}`);
    await runFromPage(COPY_PRIMARY, () => standby.run(command, { PGPASSWORD: PASSWORD }));
    await standby.start();
    await this.#waitForReplication({ state: "streaming" });
    await runFromPage(MAKE_SYNCHRONOUS, (script) => primary.run(script));
    await this.#waitForReplication({ state: "streaming", sync_state: "sync" });
  }

  #waitForReplication(state: { state: string; sync_state?: string }) {
    const read = () => this.primary.query("SELECT state, sync_state FROM pg_stat_replication");
    return vi.waitFor(async () => expect(await read()).toMatchObject([state]), WAIT);
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
}
