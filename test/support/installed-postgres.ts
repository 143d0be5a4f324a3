import { execFile } from "node:child_process";
import { appendFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterFile } from "./after-file.js";
import { freePort } from "./network.js";
import { makeTempFolder } from "./run-tool.js";

const run = promisify(execFile);

/** Put before a command that must not run as root. */
export const AS_POSTGRES =
  process.getuid?.() === 0 ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : ["env"];

/** A PostgreSQL from Debian's packages, with the tools of its version, as `pg_dump` requires. Stopped after the test file. */
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

  /** Starts an empty cluster. `binary` is the path of `postgres`; `configure` returns lines for postgresql.conf. */
  static async start(binary: string, configure = (_folder: string) => ""): Promise<InstalledPostgres> {
    const folder = await makeTempFolder("cluster");
    if (process.getuid?.() === 0) await run("chown", ["postgres", folder]);
    const postgres = new InstalledPostgres(binary, folder, await freePort());
    await postgres.runAsOwner("initdb", "-D", postgres.dataDir, "-U", "postgres", "-A", "trust", "-N");
    const own = [`port = ${postgres.port}`, "unix_socket_directories = ''", "fsync = off"];
    await appendFile(join(postgres.dataDir, "postgresql.conf"), `${own.join("\n")}\n${configure(folder)}\n`);
    await postgres.runAsOwner("pg_ctl", "start", "-w", "-D", postgres.dataDir, "-l", join(folder, "log"));
    afterFile(() => postgres.stop().catch(() => {}));
    return postgres;
  }

  stop() {
    return this.runAsOwner("pg_ctl", "stop", "-w", "-m", "fast", "-D", this.dataDir);
  }

  /** Default: as the superuser, to the database `postgres`. */
  url(user = "postgres", database = "postgres"): string {
    return `postgres://${user}@127.0.0.1:${this.port}/${database}`;
  }

  /** Runs a tool as the current user. */
  runTool(name: string, ...args: string[]) {
    return run(join(this.binFolder, name), args, { maxBuffer: 100_000_000 });
  }

  /** Runs a tool as the user who owns the cluster. */
  runAsOwner(name: string, ...args: string[]) {
    const [command = "", ...prefix] = AS_POSTGRES;
    return run(command, [...prefix, join(this.binFolder, name), ...args]);
  }
}
