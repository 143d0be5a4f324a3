import { checkRegression } from "./check-regression.js";
import { compareServers } from "./compare-servers.js";
import { measureGrowth } from "./growth.js";
import { type Options, runMode } from "./options.js";
import { measureOutbox } from "./outbox.js";

// Exits, so that the `exit` handlers stop the servers.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

/** Whether a comparison is of everything. */
const isFull = ({ quick, only }: Options) => !quick && only.length === 0;

/** Runs every measurement. Returns whether all meet their bounds. */
async function runAll(options: Options, measurements: ((options: Options) => Promise<boolean>)[]): Promise<boolean> {
  let isMet = true;
  for (const measure of measurements) isMet = (await measure(options)) && isMet;
  return isMet;
}

process.exitCode = await runMode(process.argv.slice(2), {
  compare: (options) => runAll(options, isFull(options) ? [compareServers, measureOutbox] : [compareServers]),
  check: (options) => runAll(options, options.record ? [checkRegression] : [checkRegression, measureOutbox]),
  growth: measureGrowth,
  outbox: measureOutbox,
});
