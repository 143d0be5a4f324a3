import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { createClient } from "@redis/client";
import { beforeAll, expect, it, vi } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { createRedis, ExternalServer } from "../support/external-server.js";
import { freePort } from "../support/network.js";
import { type CapturedOutput, captureOutput, findSecrets } from "../support/personal-data.js";
import { makeTempFolder } from "../support/run-tool.js";

const run = promisify(execFile);

// PostgreSQL refuses to run as root.
const AS_POSTGRES =
  process.getuid?.() === 0 ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : ["env"];

/** Starts an empty PostgreSQL cluster. The tools beside the server have its version, as `pg_dump` must. */
async function startPostgres(binary: string): Promise<{
  url: string;
  dataDir: string;
  runTool(name: string, ...args: string[]): Promise<{ stdout: string }>;
}> {
  const [command = "", ...prefix] = AS_POSTGRES;
  const pathOf = (name: string) => join(dirname(binary), name);
  const folder = await makeTempFolder("cluster");
  if (process.getuid?.() === 0) await run("chown", ["postgres", folder]);
  const dataDir = join(folder, "data");
  await run(command, [...prefix, pathOf("initdb"), "-D", dataDir, "-U", "postgres", "-A", "trust", "-N"]);
  const port = await freePort();
  const settings = ["-D", dataDir, "-p", String(port), "-k", "", "-c", "fsync=off"];
  await new ExternalServer(command, [...prefix, binary, ...settings], port).start();
  const ready = ["-h", "127.0.0.1", "-p", String(port)];
  await vi.waitFor(() => run(pathOf("pg_isready"), ready), { timeout: 60_000, interval: 100 });
  return {
    dataDir,
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    runTool: (name, ...args) => run(pathOf(name), args, { maxBuffer: 100_000_000 }),
  };
}

/** Returns the contents of all files in a folder by path, except those of Postgres' own databases. */
async function readFolder(folder: string): Promise<[path: string, text: string][]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const files: [string, string][] = [];
  for (const path of paths.filter((each) => !/\/base\/[14]\//.test(each))) {
    // Postgres pads files with zeros.
    files.push([path, (await readFile(path, "latin1")).replaceAll(/\0+/g, "\0")]);
  }
  return files;
}

describeWithBinary("postgres:postgresql", "API keys and guests' addresses", (postgres) => {
  describeWithBinary("redis-server", "with Redis", (redisServer) => {
    let database: Awaited<ReturnType<typeof startPostgres>>;
    let redisUrl: string;
    let output: CapturedOutput;

    beforeAll(async () => {
      database = await startPostgres(postgres);
      await migrate(database.url);
      const redis = createRedis(redisServer, await freePort());
      await redis.start();
      redisUrl = `redis://127.0.0.1:${redis.port}`;
      output = await captureOutput({ DATABASE_URL: database.url, REDIS_URL: redisUrl });
    }, 180_000);

    it("are in no Redis key or value, log line or response", async () => {
      const client = createClient({ url: redisUrl });
      await client.connect();
      const entries: string[] = [];
      for (const name of await client.keys("*")) {
        const value =
          (await client.type(name)) === "string" ? await client.get(name) : await client.hGetAll(name);
        entries.push(`${name} ${JSON.stringify(value)}`);
      }
      await client.close();
      expect(entries.length, "rate-limit entries in Redis").toBeGreaterThan(0);
      for (const text of [entries.join("\n"), output.logs, output.responses])
        expect(findSecrets(text, output.secrets)).toEqual([]);
    });

    it("are not in a pg_dump", async () => {
      const { stdout } = await database.runTool("pg_dump", database.url);
      expect(stdout).toContain("COPY public.forms");
      expect(findSecrets(stdout, output.secrets)).toEqual([]);
    });

    it("are in no file of a physical backup or of the write-ahead log", async () => {
      const backup = await makeTempFolder("backup");
      await database.runTool("pg_basebackup", "-d", database.url, "-D", backup, "-c", "fast");
      const logFolder = join(database.dataDir, "pg_wal");
      const files = [...(await readFolder(backup)), ...(await readFolder(logFolder))];
      // Proves that the search covers rows and the log: hosts' addresses are stored as text.
      const withHosts = files.filter(([, text]) => /user\d+@example\.com/.test(text)).map(([path]) => path);
      expect(withHosts).toContainEqual(expect.stringContaining(`${backup}/base/`));
      expect(withHosts).toContainEqual(expect.stringContaining(logFolder));
      for (const [path, text] of files) expect([path, findSecrets(text, output.secrets)]).toEqual([path, []]);
    });
  });
});
