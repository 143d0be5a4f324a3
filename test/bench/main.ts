import { checkRegression } from "./check-regression.js";
import { compareServers } from "./compare-servers.js";
import { measureGrowth } from "./growth.js";
import { plotLatency } from "./latency-curve.js";
import { HELP, readOptions } from "./options.js";
import { profileService } from "./profile.js";
import { measureSaturation } from "./saturation.js";

// Exits, so that the `exit` handlers stop the servers.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

const options = readOptions();
const modes = {
  compare: compareServers,
  check: checkRegression,
  growth: measureGrowth,
  plot: plotLatency,
  profile: profileService,
  saturation: measureSaturation,
};
if (options) await modes[options.mode](options);
else process.stdout.write(HELP);
