import { parseArgs } from "node:util";
import type { LoadSettings } from "./measure.js";

export interface Options extends LoadSettings {
  mode: "compare" | (typeof MODES)[number];
  forms: number;
  /** Prefixes of the operation ids to measure; empty for all. */
  only: string[];
  quick: boolean;
  /** In mode `check`: writes `recorded.json` instead of comparing with it. */
  record: boolean;
}

/** Other measurements than a comparison. */
export const MODES = ["check", "growth", "outbox"] as const;

const FULL = { forms: 1_000_000, rounds: 7, warmUpSeconds: 1 };
const QUICK = { forms: 100_000, rounds: 2, warmUpSeconds: 0 };

const HELP = `npm run bench -- [options]
Compares the service with the reference servers L, L+ and T. Fails if a target is missed. See test/bench/README.md.
  --quick          small database and short rounds, about 5 minutes
  --only A,B       only operations whose id starts with A or B, for example fetch, list-, deep, create
  --forms N        forms in the database (default ${FULL.forms}; with --quick or --check ${QUICK.forms})
  --rounds N       rounds per operation (default ${FULL.rounds}; with --quick ${QUICK.rounds})
Other measurements:
  --check          compare CPU time per request relative to L with recorded.json, and judge the rate of deliveries, as in CI
  --record         write recorded.json, the medians of three runs; fails unless the machine is quiet
  --growth         latency with 10,000 and --forms forms, memory
  --outbox         emails and webhook deliveries per second, as at the end of a full comparison
`;

const flag = { type: "boolean", default: false } as const;
const text = { type: "string" } as const;
const FLAGS = { help: flag, quick: flag, record: flag, check: flag, growth: flag, outbox: flag };
const OPTIONS = { ...FLAGS, forms: text, rounds: text, only: text };

/** Parses the command line; returns undefined for `--help`. */
function readOptions(args: string[]): Options | undefined {
  const { values } = parseArgs({ args, options: OPTIONS });
  if (values.help) return undefined;
  const { quick, record, only } = values;
  const check = values.check || record;
  const defaults = quick || check ? QUICK : FULL;
  const numberOf = (name: "forms" | "rounds"): number => {
    const given = values[name];
    if (given !== undefined && !/^[1-9]\d*$/.test(given)) throw new Error(`--${name} must be a positive integer.`);
    return Number(given ?? defaults[name]);
  };
  return {
    ...{ ...defaults, forms: numberOf("forms"), rounds: numberOf("rounds"), seconds: 1, connections: 32 },
    ...{ quick, record, only: only?.split(",").filter(Boolean) ?? [] },
    mode: check ? "check" : (MODES.find((mode) => values[mode]) ?? "compare"),
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
