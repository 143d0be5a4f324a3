import { execFile } from "node:child_process";
import { appendFile, chown, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterFile } from "./after-file.js";
import { restartablePort } from "./network.js";
import { killAll, resumeAll, suspendAll } from "./postgres-cluster.js";
import { runSql } from "./run-sql.js";
import { makeTempFolder } from "./run-tool.js";

const run = promisify(execFile);

/** Put before a command that must not run as root. */
export const AS_POSTGRES =
  process.getuid?.() === 0 ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : ["env"];

/** One machine with a PostgreSQL from Debian's packages and the tools of its version. It is killed after the test file. */
export class InstalledPostgres {
  readonly port: number;
  /** Its user owns this folder. */
  readonly folder: string;
  /** Of the running server. Set it after starting the server on another folder. */
  dataDir: string;
  /** Folder of the server and its tools. */
  readonly binFolder: string;

  private constructor(binary: string, folder: string, port: number) {
    this.binFolder = dirname(binary);
    this.folder = folder;
    this.port = port;
    this.dataDir = join(folder, "data");
  }

  /** `binary` is the path of `postgres`. There is no data folder yet. */
  static async create(binary: string): Promise<InstalledPostgres> {
    const folder = await makeTempFolder("machine");
    const postgres = new InstalledPostgres(binary, folder, await restartablePort());
    if (process.getuid?.() === 0) {
      const [user = "", group = ""] = (await run("sh", ["-c", "id -u postgres; id -g postgres"])).stdout.split("\n");
      await chown(folder, Number(user), Number(group));
    }
    afterFile(() => postgres.kill());
    return postgres;
  }

  /** Creates an empty cluster, with these lines at the end of postgresql.conf and at the top of pg_hba.conf. */
  async initialize(settings: string, accessRules = ""): Promise<void> {
    await this.run("initdb -U postgres -A trust -N --encoding=UTF8 --locale=C");
    const own = [`port = ${this.port}`, "unix_socket_directories = ''", "fsync = off"];
    await appendFile(join(this.dataDir, "postgresql.conf"), `${own.join("\n")}\n${settings}\n`);
    const accessFile = join(this.dataDir, "pg_hba.conf");
    await writeFile(accessFile, accessRules + (await readFile(accessFile, "utf8")));
  }

  /** Starts it and waits until it accepts connections. */
  async start(): Promise<void> {
    await this.run(`pg_ctl start -w -l '${join(this.folder, "log")}' -o '-p ${this.port}'`);
  }

  async stop(): Promise<void> {
    await this.run("pg_ctl stop -w -m fast");
  }

  /** Kills all its processes, as if the machine had failed. */
  async kill(): Promise<void> {
    const pid = await this.#readPid();
    if (pid) await killAll(pid);
    await rm(this.#pidFile, { force: true });
  }

  /** Suspends it, as if its machine or network had failed, until the returned function is called. */
  async suspend(): Promise<() => void> {
    const pids = suspendAll((await this.#readPid()) ?? Number.NaN);
    return () => resumeAll(pids);
  }

  get #pidFile(): string {
    return join(this.dataDir, "postmaster.pid");
  }

  /** Undefined if it is not running. */
  async #readPid(): Promise<number | undefined> {
    const text = await readFile(this.#pidFile, "utf8").catch(() => undefined);
    return text === undefined ? undefined : Number.parseInt(text, 10);
  }

  /** Default: as the superuser, to the database `postgres`. */
  url(user = "postgres", database = "postgres"): string {
    return `postgres://${user}@127.0.0.1:${this.port}/${database}`;
  }

  query<Row extends object>(sql: string): Promise<Row[]> {
    return runSql<Row>(this.url(), sql);
  }

  /** Runs an operator's command as the server's user, with the variables that Postgres' programs read. */
  async run(command: string, env: Record<string, string> = {}): Promise<string> {
    const variables = { PGDATA: this.dataDir, PGHOST: "127.0.0.1", PGPORT: `${this.port}`, PGUSER: "postgres" };
    const PATH = `${this.binFolder}:${process.env.PATH}`;
    const [program = "", ...args] = [...AS_POSTGRES, "sh", "-ec", command];
    return (await run(program, args, { env: { ...variables, PATH, ...env }, cwd: this.folder })).stdout;
  }
}
