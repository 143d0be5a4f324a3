import { check } from "./check-regression.js";
import { compete } from "./compare-servers.js";
import { growth } from "./growth.js";
import { HELP, readOptions } from "./options.js";
import { profile } from "./profile.js";

// So that what is started ends too.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

const options = readOptions();
const modes = { compete, check, growth, profile };
if (options) await modes[options.mode](options);
else process.stdout.write(HELP);
