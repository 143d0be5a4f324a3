import { HELP, type Options, readOptions } from "./options.js";

/** Measurements by name. One with bounds returns false if a bound is missed. */
export type Modes = Record<Options["mode"], (options: Options) => Promise<unknown>>;

/** Runs the measurement that the command line names. Returns the exit code: 1 if a bound is missed. */
export async function runMode(args: string[], modes: Modes): Promise<number> {
  const options = readOptions(args);
  if (!options) {
    process.stdout.write(HELP);
    return 0;
  }
  return (await modes[options.mode](options)) === false ? 1 : 0;
}
