// Loaded into a process by `node --import`. Every 2 s it writes the memory in use after a garbage collection to a file.
import { appendFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc");

setInterval(() => {
  collectGarbage();
  const { heapUsed, external, rss } = process.memoryUsage();
  const sample = { seconds: process.uptime(), heapBytes: heapUsed + external, rssBytes: rss };
  appendFileSync(process.env.MEMORY_LOG, `${JSON.stringify(sample)}\n`);
}, 2_000).unref();
