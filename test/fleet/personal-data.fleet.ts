import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { createClient } from "@redis/client";
import { beforeAll, expect, it } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { createRedis } from "../support/external-server.js";
import { InstalledPostgres } from "../support/installed-postgres.js";
import { freePort } from "../support/network.js";
import { type CapturedOutput, captureOutput, findSecrets } from "../support/personal-data.js";
import { makeTempFolder } from "../support/run-tool.js";

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
    let database: InstalledPostgres;
    let redisUrl: string;
    let output: CapturedOutput;

    beforeAll(async () => {
      database = await InstalledPostgres.start(postgres);
      await migrate(database.url());
      const redis = createRedis(redisServer, await freePort());
      await redis.start();
      redisUrl = `redis://127.0.0.1:${redis.port}`;
      output = await captureOutput({ DATABASE_URL: database.url(), REDIS_URL: redisUrl });
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
      const { stdout } = await database.runTool("pg_dump", database.url());
      expect(stdout).toContain("COPY public.forms");
      expect(findSecrets(stdout, output.secrets)).toEqual([]);
    });

    it("are in no file of a physical backup or of the write-ahead log", async () => {
      const backup = await makeTempFolder("backup");
      await database.runTool("pg_basebackup", "-d", database.url(), "-D", backup, "-c", "fast");
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
