import { checkRegression } from "./check-regression.js";
import { compareServers } from "./compare-servers.js";
import { measureGrowth } from "./growth.js";
import { runMode } from "./options.js";

// Exits, so that the `exit` handlers stop the servers.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

process.exitCode = await runMode(process.argv.slice(2), {
  compare: compareServers,
  check: checkRegression,
  growth: measureGrowth,
});
