import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { isAlive, RunningProcess, spawnNode } from "../support/processes.js";

const argsToRunWithLog = (script: string) => [
  "--input-type=module",
  "--eval",
  `import { createLog, flushLogs } from ${JSON.stringify(join(packageRoot(), "dist/tools/gateway/runtime/log.js"))};
   const log = createLog("info");
   ${script}`,
];

test("log lines of processes that share a pipe are never interleaved, and have the time with milliseconds", async () => {
  const [processes, lines] = [4, 3_000];
  const script = `for (let n = 0; n < ${lines}; n++) {
    log.info({ n, filler: "x".repeat(n % 400) }, "line");
    if (n % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }`;
  const [flag = "", evaluate = "", text = ""] = argsToRunWithLog(script);
  // The reader starts late, so that the pipe is full.
  const all = `{ ${'"$NODE" "$@" & '.repeat(processes)} wait; } 2>&1 | { sleep 0.5; cat; }`;
  const shell = spawn("sh", ["-c", all, "sh", flag, evaluate, text], {
    env: { PATH: process.env.PATH, NODE: process.execPath },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  for await (const chunk of shell.stdout.setEncoding("utf8")) output += chunk;
  const written: { n: number; time: string }[] = output
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(written).toHaveLength(processes * lines);
  expect(new Set(written.map(({ n }) => n)).size).toBe(lines);
  const { time = "" } = written.at(-1) ?? {};
  expect(new Date(time).toISOString()).toBe(time);
  expect(Math.abs(Date.now() - Date.parse(time))).toBeLessThan(60_000);
});

test.each([
  ["ends", ""],
  ["calls process.exit", "process.exit(3);"],
  ["throws", 'throw new Error("on purpose");'],
])("no log line is lost when a process %s", async (_, end) => {
  const script = `for (let n = 0; n < 100; n++) log.info({ n }, "line"); ${end}`;
  const { stderr } = await spawnNode(argsToRunWithLog(script)).done;
  expect(stderr.split("\n").filter((line) => line.includes('"msg":"line"'))).toHaveLength(100);
});

test("of log lines that cannot be written, 16 MB wait, and further ones are dropped", async () => {
  const script = `for (let n = 0; n < 20_000; n++) log.info({ n, filler: "x".repeat(1_000) }, "line");`;
  const { stderr } = await spawnNode(argsToRunWithLog(script)).done;
  const seen = stderr.split("\n", 20_000).map((line) => line && JSON.parse(line).n);
  expect(stderr.length).toBeLessThanOrEqual(16 * 2 ** 20);
  expect(stderr.length).toBeGreaterThan(16 * 2 ** 20 - 2_000);
  expect(seen.slice(0, 15_000)).toEqual(Array.from({ length: 15_000 }, (_, n) => n));
});

test("a process whose log has no reader any more exits", async () => {
  const script = `process.on("SIGTERM", async () => {
      log.info({}, "line");
      await flushLogs();
      process.exit();
    });
    console.log("ready");
    setInterval(() => {}, 1_000);`;
  const child = spawn(process.execPath, argsToRunWithLog(script), { stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stdout, "data");
  child.stderr.destroy();
  child.kill("SIGTERM");
  await expect.poll(() => child.exitCode, { timeout: 5_000 }).toBe(0);
});

const canCloseTerminal = process.platform === "linux" && spawnSync("script", ["--version"]).status === 0;

test.skipIf(!canCloseTerminal)(
  "a process whose terminal was closed exits, also if it has logged nothing since",
  async () => {
    const [flag, evaluate, script] = argsToRunWithLog(`
    process.on("SIGHUP", () => {}).on("SIGTERM", () => process.exit());
    log.info({}, "line");
    await flushLogs();
    console.log("pid " + process.pid);
    setInterval(() => {}, 1_000);`);
    const terminal = spawn("script", ["--quiet", "--command", `"$NODE" ${flag} ${evaluate} "$SCRIPT"`, "/dev/null"], {
      env: { PATH: process.env.PATH, NODE: process.execPath, SCRIPT: script, SHELL: "/bin/sh" },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    const running = new RunningProcess(terminal);
    const [, pid] = await running.waitForLine(/^pid (\d+)/);
    onTestFinished(() => void spawnSync("kill", ["-KILL", `${pid}`]));
    await running.stop("SIGKILL");
    process.kill(Number(pid), "SIGTERM");
    await expect.poll(() => isAlive(Number(pid)), { timeout: 5_000 }).toBe(false);
  },
);
