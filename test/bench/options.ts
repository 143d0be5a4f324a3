import { parseArgs } from "node:util";
import type { LoadSettings } from "./measure.js";

export interface Options extends LoadSettings {
  mode: "compare" | "check" | (typeof MODES)[number];
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

/** Other measurements than a comparison or a check. */
const MODES = ["growth", "plot", "profile", "saturation", "storage"] as const;

const FULL = { forms: 1_000_000, rounds: 9, seconds: 1, warmUpSeconds: 1 };
const QUICK = { forms: 100_000, rounds: 2, seconds: 1, warmUpSeconds: 0 };

export const HELP = `npm run bench -- [options]
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
  --growth         latency with 10,000 and --forms forms, startup time, 2 workers, memory
  --minutes N      minutes of load for the memory of --growth (default 20)
  --plot           draw gateway/docs/latency.svg: latency against load
  --profile        the service's functions by self time
  --saturation     latency at half, once and twice the load that CPU time per request predicts as the maximum
  --storage        bytes per form, WAL per create, and sizes after updates, VACUUM and REINDEX; by test/bench/storage.sql
`;

const parsePositive = (text: string | undefined, name: string, fallback: number): number => {
  if (text === undefined) return fallback;
  if (!/^[1-9]\d*$/.test(text)) throw new Error(`--${name} must be a positive integer.`);
  return Number(text);
};

/** Parses the command line; returns undefined for `--help`. */
export function readOptions(args: string[]): Options | undefined {
  const flag = { type: "boolean", default: false } as const;
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args,
    options: {
      ...{
        help: flag,
        quick: flag,
        plot: flag,
        check: flag,
        record: flag,
        growth: flag,
        profile: flag,
        saturation: flag,
        storage: flag,
      },
      ...{
        only: text,
        name: text,
        forms: text,
        rounds: text,
        seconds: text,
        connections: text,
        minutes: text,
      },
    },
  });
  if (values.help) return undefined;
  const { quick, record } = values;
  const check = values.check || record;
  const defaults = quick || check ? QUICK : FULL;
  return {
    mode: check ? "check" : (MODES.find((mode) => values[mode]) ?? "compare"),
    forms: parsePositive(values.forms, "forms", defaults.forms),
    rounds: parsePositive(values.rounds, "rounds", defaults.rounds),
    seconds: parsePositive(values.seconds, "seconds", defaults.seconds),
    connections: parsePositive(values.connections, "connections", 32),
    minutes: parsePositive(values.minutes, "minutes", 20),
    warmUpSeconds: defaults.warmUpSeconds,
    only: values.only?.split(",").filter(Boolean) ?? [],
    name: values.name ?? "latest",
    quick,
    record,
  };
}
