import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import {
  type EmbeddedOptions,
  type EmbeddedServer,
  removeEmbedded,
  startEmbedded,
} from "../../gateway/dev/embedded.js";
import { packageRoot } from "../../prisma/package-root.js";
import { afterFile } from "../support/after-file.js";
import { listenLocally } from "../support/network.js";
import { isAlive, type RunningProcess, spawnNode } from "../support/processes.js";
import { runSql } from "../support/run-sql.js";

const dataDir = await newFolder();

test("PostgreSQL stops when the process that started it is killed, and the next start keeps the data", async () => {
  const first = await start();
  await runSql(first.url, "CREATE TABLE kept AS SELECT 42 AS n");
  await first.stop();
  const child = startInChildProcess(dataDir);
  const pid = Number((await child.waitForLine(/^serving (\d+)$/))[1]);
  await child.stop("SIGKILL");
  const server = await start();
  expect(server.pid).not.toBe(pid);
  expect(await runSql(server.url, "SELECT n FROM kept")).toEqual([{ n: 42 }]);
});

test("the next start succeeds after initdb was killed", async () => {
  const folder = await newFolder();
  const child = startInChildProcess(folder);
  await child.waitForLine(/^Creating/);
  const draft = `${folder}.new-${child.pid}`;
  while (!(await readdir(join(draft, "cluster")).catch(() => [])).length) await sleep(1);
  await child.stop("SIGKILL");
  afterFile(() => removeEmbedded(draft));
  const server = await start({ dataDir: folder });
  expect(await runSql(server.url, "SELECT 1 AS n")).toEqual([{ n: 1 }]);
});

test("of several processes that start at the same time one serves, and the others report that the database is in use", async () => {
  const folder = await newFolder();
  const children = [1, 2, 3].map(() => startInChildProcess(folder));
  const outcomes = await Promise.all(children.map((child) => child.waitForLine(/^(serving|refused: .*)/)));
  const refusal = `refused: The database in ${folder} is in use by another process: stop that process first.`;
  expect(outcomes.map(([line]) => line).sort()).toEqual([refusal, refusal, "serving"]);
  await Promise.all(children.map((child) => child.stop("SIGKILL")));
});

test("a database stays in use after a crash of Postgres has ended all sessions", async () => {
  const server = await start();
  const walwriter = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'";
  // Postgres accepts connections before it has started all of its processes.
  await expect.poll(() => runSql(server.url, walwriter)).toHaveLength(1);
  const [row] = await runSql<{ pid: number }>(server.url, walwriter);
  process.kill(Number(row?.pid), "SIGKILL");
  await expect.poll(() => runSql(server.url, walwriter).catch(() => [row])).not.toEqual([row]);
  await expect(start()).rejects.toThrow(/is in use by another process/);
  expect(await runSql(server.url, "SELECT 1 AS n")).toEqual([{ n: 1 }]);
});

test("removeEmbedded removes a database, unless it is in use", async () => {
  const folder = await newFolder();
  const server = await start({ dataDir: folder });
  await expect(removeEmbedded(folder)).rejects.toThrow(/is in use by another process/);
  await server.stop();
  await removeEmbedded(folder);
  await removeEmbedded(folder);
  await expect(stat(folder)).rejects.toThrow("ENOENT");
});

test("removeEmbedded removes the database of a crashed server, even if another process has its port", async () => {
  const folder = await newFolder();
  await (await start({ dataDir: folder })).stop();
  const listener = createServer();
  const port = await listenLocally(listener);
  const { pid } = spawnSync(process.execPath, ["--version"]);
  const cluster = join(folder, "cluster");
  await writeFile(join(cluster, "postmaster.pid"), `${pid}\n${cluster}\n0\n${port}\n`);
  await removeEmbedded(folder);
  await expect(stat(folder)).rejects.toThrow("ENOENT");
  listener.close();
});

test("a stale postmaster.pid whose id belongs to another process does not prevent a start", async () => {
  const other = spawnNode(["--eval", "setTimeout(() => {}, 60_000)"]);
  await writeFile(join(dataDir, "cluster/postmaster.pid"), `${other.pid}\n${join(dataDir, "cluster")}\n0\n1\n`);
  await start();
  expect(isAlive(other.pid)).toBe(true);
});

test("the given port is used if it is free, and another one if it is not", async () => {
  const listener = createServer();
  const port = await listenLocally(listener);
  const onAnotherPort = await start({ port });
  expect(onAnotherPort.port).not.toBe(port);
  await onAnotherPort.stop();
  listener.close();
  expect((await start({ port })).port).toBe(port);
});

test("connections from another host, through a socket or without the password are not accepted", async () => {
  const { url } = await start();
  expect(await runSql(url, "SHOW listen_addresses")).toEqual([{ listen_addresses: "127.0.0.1" }]);
  expect(await runSql(url, "SHOW unix_socket_directories")).toEqual([{ unix_socket_directories: "" }]);
  const guess = new URL(url);
  guess.password = "guess";
  await expect(runSql(guess.href, "SELECT 1")).rejects.toThrow(/password authentication failed/);
  expect((await stat(join(dataDir, "password"))).mode & 0o777).toBe(0o600);
  expect((await stat(dataDir)).mode & 0o007).toBe(0);
});

test("Postgres has its own process group, so Ctrl-C in a terminal does not reach it", async () => {
  const { pid } = await start();
  const { stdout } = spawnSync("ps", ["-o", "pgid=", "-p", String(pid)], { encoding: "utf8" });
  expect(stdout.trim()).toBe(String(pid));
});

test("stop ends a server with open sessions, and can be called again", async () => {
  const server = await start();
  const client = new pg.Client({ connectionString: server.url });
  const ended = new Promise((resolve) => client.once("end", resolve));
  client.on("error", () => {});
  await client.connect();
  await Promise.all([server.stop(), server.stop()]);
  await server.stop();
  expect(isAlive(server.pid)).toBe(false);
  await ended;
});

test("settings are applied, the encoding is UTF-8, text sorts by code point, and an invalid setting is reported with the message of Postgres", async () => {
  const { url, stop } = await start({ settings: { max_connections: "17" } });
  expect(await runSql(url, "SHOW max_connections")).toEqual([{ max_connections: "17" }]);
  const text = "SELECT lower('ÄÉ') AS l, 'Z' < 'a' AS o, current_setting('server_encoding') AS e";
  expect(await runSql(url, text)).toEqual([{ l: "äé", o: true, e: "UTF8" }]);
  await stop();
  const wrong = start({ settings: { max_connections: "many" } });
  await expect(wrong).rejects.toThrow(/^PostgreSQL did not start in .*\n.*invalid value.*max_connections/);
});

test.each(["on", "off"])(
  "fsync and full_page_writes are on in a durable server, and off in another one: %s",
  async (value) => {
    const { url } = await start({ durable: value === "on" });
    const shown = "SELECT current_setting('fsync') AS f, current_setting('full_page_writes') AS w";
    expect(await runSql(url, shown)).toEqual([{ f: value, w: value }]);
  },
);

test("a folder with other files is rejected and not changed", async () => {
  const folder = await newFolder();
  await writeFile(join(folder, "diary.txt"), "private");
  const before = await stat(folder);
  await expect(start({ dataDir: folder })).rejects.toThrow(`${folder} contains files that are not part of a database`);
  expect(await readdir(folder)).toEqual(["diary.txt"]);
  expect((await stat(folder)).mode).toBe(before.mode);
});

test("a folder that cannot be created is reported in one sentence", async () => {
  const file = join(await newFolder(), "file");
  await writeFile(file, "");
  await expect(start({ dataDir: join(file, "data") })).rejects.toThrow(
    new RegExp(`^Cannot keep a database in ${join(file, "data")}: E[A-Z]+: [^\\n]*\\.$`),
  );
});

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "guest-forms-test-"));
  afterFile(() => removeEmbedded(folder));
  return folder;
}

async function start(options: Partial<EmbeddedOptions> = {}): Promise<EmbeddedServer> {
  const server = await startEmbedded({ dataDir, durable: false, ...options });
  onTestFinished(() => server.stop());
  return server;
}

/** Starts a process that prints its progress, then "serving PID" and runs on, or "refused: REASON" and exits. */
function startInChildProcess(folder: string): RunningProcess {
  const script = `
    import { startEmbedded } from ${JSON.stringify(join(packageRoot(), "dist/tools/gateway/dev/embedded.js"))};
    try {
      const options = { dataDir: ${JSON.stringify(folder)}, durable: false, onProgress: console.log };
      console.log("serving", (await startEmbedded(options)).pid);
      setInterval(() => {}, 60_000);
    } catch (error) {
      console.log("refused:", error.message);
    }
  `;
  return spawnNode(["--input-type=module", "--eval", script]);
}
