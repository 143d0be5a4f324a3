import { loadavg } from "node:os";
import { compareServers, measureGrowth } from "./compare.js";
import { HELP, readOptions } from "./options.js";
import { measureOutbox } from "./outbox.js";
import { progress } from "./report.js";
import { measureStandby } from "./standby.js";
import { measureWal } from "./wal.js";

// All processes that were started end with this one.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

const options = readOptions(process.argv.slice(2));
const { mode, only, quick } = options;
if (mode === "help") {
  process.stdout.write(HELP);
  process.exit();
}
progress(`Load average at the start: ${loadavg()[0]?.toFixed(1)}`);
const outcomes: boolean[] = [];
if (mode === "growth") outcomes.push(await measureGrowth(options));
else if (mode === "standby") outcomes.push(await measureStandby(options));
else if (mode === "wal") outcomes.push(await measureWal(options));
else if (mode !== "outbox") outcomes.push(await compareServers(options));
const isWhole = (mode === "compare" || mode === "check") && !quick && only.length === 0;
if (isWhole) outcomes.push(await measureWal(options));
if (mode === "outbox" || isWhole) outcomes.push(await measureOutbox(mode === "check" ? "deliveries" : "all"));
process.exit(outcomes.includes(false) ? 1 : 0);
