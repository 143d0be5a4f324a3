import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chown, mkdir, open, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { WITH_LIFELINE } from "../../gateway/dev/embedded.js";
import { type Installation, install } from "../../gateway/dev/embedded-files.js";
import { afterFile } from "../support/after-file.js";
import { findCommand } from "../support/describe-with-binary.js";
import { restartablePort } from "../support/network.js";
import { killAll, resumeAll, suspendAll, waitForConnection } from "../support/postgres-cluster.js";
import { isAlive } from "../support/processes.js";
import { runSql } from "../support/run-sql.js";

export const REPLICATION_PASSWORD = randomBytes(12).toString("hex");
const PASSWORD = randomBytes(12).toString("hex");

/** The executables of a version of PostgreSQL, and the user who runs them. */
export type PostgresProgram = Pick<Installation, "bin" | "spawnOptions">;

/** The embedded PostgreSQL 18, or Debian's PostgreSQL 15. `folder` is a new folder that every user may enter. */
export async function findPostgres(version: "15" | "18", folder: string): Promise<PostgresProgram> {
  const embedded = await install(join(folder, "embedded"), false, () => {});
  return version === "18" ? embedded : { ...embedded, bin: `/usr/lib/postgresql/${version}/bin` };
}

/** The folder of Debian's psql, which the embedded PostgreSQL does not have. */
const CLIENT_FOLDER = dirname(findCommand("psql") ?? "");

/** One machine with PostgreSQL: a data folder on a fixed port. It is killed after the test file. */
export class PostgresServer {
  /** postgres:// URL of the superuser. */
  readonly url: string;
  readonly port: number;
  readonly dataDir: string;
  readonly program: PostgresProgram;
  readonly #env: Record<string, string>;
  #pid = 0;

  private constructor(program: PostgresProgram, folder: string, port: number, env: Record<string, string>) {
    this.program = program;
    this.port = port;
    this.dataDir = join(folder, "data");
    this.url = `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/postgres`;
    this.#env = env;
  }

  /** `env` has additional environment variables of Postgres. */
  static async create(
    program: PostgresProgram,
    folder: string,
    env: Record<string, string> = {},
  ): Promise<PostgresServer> {
    await mkdir(folder);
    const { uid, gid } = program.spawnOptions;
    if (uid !== undefined && gid !== undefined) await chown(folder, uid, gid);
    const server = new PostgresServer(program, folder, await restartablePort(), env);
    afterFile(() => server.kill());
    return server;
  }

  /** Creates an empty database cluster, with these lines at the top of pg_hba.conf and the end of postgresql.conf. */
  async initialize(accessRules: string, settings: string): Promise<void> {
    const passwordFile = join(this.dataDir, "../password");
    await writeFile(passwordFile, PASSWORD);
    const flags = "--username=postgres --auth=scram-sha-256 --encoding=UTF8 --locale=C --no-sync";
    await this.run(`${this.program.bin}/initdb --pgdata="$PGDATA" --pwfile='${passwordFile}' ${flags}`);
    const accessFile = join(this.dataDir, "pg_hba.conf");
    await writeFile(accessFile, accessRules + (await readFile(accessFile, "utf8")));
    const addresses = "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\n";
    await writeFile(join(this.dataDir, "postgresql.conf"), addresses + settings, { flag: "a" });
  }

  /** Starts it and waits until it accepts connections. */
  async start(): Promise<void> {
    const log = join(this.dataDir, "../log");
    const output = await open(log, "w");
    const postgres = [join(this.program.bin, "postgres"), "-D", this.dataDir, "-p", `${this.port}`];
    const { spawnOptions } = this.program;
    const child = spawn("/bin/sh", ["-c", WITH_LIFELINE, "sh", ...postgres], {
      ...spawnOptions,
      env: { ...spawnOptions.env, ...this.#env },
      stdio: ["pipe", output.fd, output.fd],
    });
    await once(child, "spawn");
    await output.close();
    const lifeline = child.stdin?.on("error", () => {});
    const exited = once(child, "exit").then(async () => {
      lifeline?.end("\n");
      throw new Error(`PostgreSQL exited:\n${await readFile(log, "utf8")}`);
    });
    exited.catch(() => {});
    this.#pid = child.pid ?? 0;
    await Promise.race([waitForConnection(this.url), exited]);
  }

  /** Kills all its processes. */
  async kill(): Promise<void> {
    if (this.#pid && isAlive(this.#pid)) await killAll(this.#pid);
    this.#pid = 0;
  }

  /** Suspends it, as if its machine or network had failed, until the returned function is called. */
  suspend(): () => void {
    const pids = suspendAll(this.#pid);
    return () => resumeAll(pids);
  }

  /** Runs an operator's command as the server's user, with the variables that Postgres' programs read. */
  async run(command: string, env: Record<string, string> = {}): Promise<string> {
    const { spawnOptions, bin } = this.program;
    const variables = {
      PGDATA: this.dataDir,
      PGHOST: "127.0.0.1",
      PGPORT: `${this.port}`,
      PGUSER: "postgres",
      PGPASSWORD: PASSWORD,
      PATH: `${bin}:${CLIENT_FOLDER}:${process.env.PATH}`,
    };
    const options = { ...spawnOptions, env: { ...spawnOptions.env, ...variables, ...env } };
    return (await promisify(execFile)("/bin/sh", ["-ec", command], options)).stdout;
  }

  query<Row extends object>(sql: string): Promise<Row[]> {
    return runSql<Row>(this.url, sql);
  }
}
