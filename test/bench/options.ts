import { parseArgs } from "node:util";
import type { LoadSettings } from "./measure.js";

export interface Options extends LoadSettings {
  mode: "compare" | (typeof MODES)[number];
  forms: number;
  /** Prefixes of the operation ids to measure; empty for all. */
  only: string[];
  /** Name of the results file, without extension. */
  name: string;
  quick: boolean;
  /** In mode `check`: writes `recorded.json` instead of comparing with it. */
  record: boolean;
  /** In mode `growth`: minutes of mixed load in which memory is measured. */
  minutes: number;
}

/** Other measurements than a comparison. */
export const MODES = ["check", "growth", "plot", "saturation", "storage"] as const;

const FULL = { forms: 1_000_000, rounds: 9, seconds: 1, warmUpSeconds: 1 };
const QUICK = { forms: 100_000, rounds: 2, seconds: 1, warmUpSeconds: 0 };

const HELP = `npm run bench -- [options]
Compares the service with the reference servers L, L+ and T. Fails if a target is missed. See test/bench/README.md.
  --quick          small database and short rounds, about 5 minutes
  --only A,B       only operations whose id starts with A or B, for example fetch, list-, deep, create
  --forms N        forms in the database (default ${FULL.forms}; with --quick or --check ${QUICK.forms})
  --rounds N       rounds per operation (default ${FULL.rounds}; with --quick ${QUICK.rounds})
  --seconds N      seconds per server and round (default ${FULL.seconds}; with --quick ${QUICK.seconds})
  --connections N  client connections (default 32)
  --name NAME      write results to test/bench/results/NAME.json (default latest)
Other measurements:
  --check          compare CPU time per request relative to L with recorded.json, as in CI
  --record         write recorded.json, the medians of three runs; fails unless the machine is quiet
  --growth         latency with 10,000 and --forms forms, memory
  --minutes N      minutes of load for the memory of --growth (default 20)
  --plot           draw gateway/docs/latency.svg: latency against load
  --saturation     latency at half, once and twice the load that CPU time per request predicts as the maximum
  --storage        bytes per form, WAL per create, and sizes after updates, VACUUM and REINDEX; by test/bench/storage.sql
`;

const FLAGS = ["help", "quick", "record", ...MODES] as const;
const NUMBERS = ["forms", "rounds", "seconds", "connections", "minutes"] as const;

/** Parses the command line; returns undefined for `--help`. */
function readOptions(args: string[]): Options | undefined {
  const all = <Name extends string, Value>(names: readonly Name[], value: Value) =>
    Object.fromEntries(names.map((name) => [name, value])) as Record<Name, Value>;
  const text = { type: "string" } as const;
  const options = { ...all(FLAGS, { type: "boolean", default: false } as const), ...all(NUMBERS, text) };
  const { values } = parseArgs({ args, options: { ...options, only: text, name: text } });
  if (values.help) return undefined;
  const { quick, record, only, name = "latest" } = values;
  const check = values.check || record;
  const defaults = { connections: 32, minutes: 20, ...(quick || check ? QUICK : FULL) };
  const numberOf = (name: (typeof NUMBERS)[number]): number => {
    const given = values[name];
    if (given !== undefined && !/^[1-9]\d*$/.test(given)) throw new Error(`--${name} must be a positive integer.`);
    return Number(given ?? defaults[name]);
  };
  const [forms, rounds, seconds, connections, minutes] = NUMBERS.map(numberOf) as [
    number,
    number,
    number,
    number,
    number,
  ];
  return {
    ...{ forms, rounds, seconds, connections, minutes, warmUpSeconds: defaults.warmUpSeconds, name, quick, record },
    mode: check ? "check" : (MODES.find((mode) => values[mode]) ?? "compare"),
    only: only?.split(",").filter(Boolean) ?? [],
  };
}

/** Runs the measurement that the command line names. Returns the exit code: 1 if the measurement returns that a bound is missed. */
export async function runMode(
  args: string[],
  modes: Record<Options["mode"], (options: Options) => Promise<unknown>>,
): Promise<number> {
  const options = readOptions(args);
  if (!options) {
    process.stdout.write(HELP);
    return 0;
  }
  return (await modes[options.mode](options)) === false ? 1 : 0;
}
