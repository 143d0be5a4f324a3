import { parseArgs } from "node:util";
import type { Pace } from "./measure.js";

export interface Options extends Pace {
  mode: "compete" | "check" | "growth" | "profile";
  forms: number;
  /** Beginnings of the ids of the operations to measure; all where empty. */
  only: string[];
  /** Name of the results' file. */
  name: string;
  quick: boolean;
  /** Of `check`: writes down what it finds instead. */
  record: boolean;
  plot: boolean;
  /** Of `growth`: how long memory is watched. */
  minutes: number;
}

const FULL = { forms: 1_000_000, rounds: 9, seconds: 1, warmSeconds: 1 };
const QUICK = { forms: 100_000, rounds: 2, seconds: 1, warmSeconds: 0 };

export const HELP = `npm run bench -- [options]
  --quick          a small database and short rounds: about 2 minutes
  --only a,b       only operations whose ids begin so (fetch, list-, deep, create …)
  --forms N        forms in the database (${FULL.forms}; --quick, --check: ${QUICK.forms})
  --rounds N       rounds of each operation (${FULL.rounds}; --quick: ${QUICK.rounds})
  --seconds N      seconds a round lasts for each server (${FULL.seconds}; --quick: ${QUICK.seconds})
  --connections N  connections (32)
  --name NAME      results go to test/bench/results/NAME.json (latest)
  --plot           draws test/bench/latency.svg
other measurements:
  --check          the service's CPU a request to L's, beside recorded.json: what CI runs
  --record         writes recorded.json
  --growth         latency with 10,000 and with --forms forms, start, workers, memory over --minutes (10)
  --profile        the service's functions by self time in the hottest paths
`;

const whole = (text: string | undefined, name: string, fallback: number): number => {
  if (text === undefined) return fallback;
  if (!/^[1-9]\d*$/.test(text)) throw new Error(`--${name} must be a positive integer.`);
  return Number(text);
};

/** What the command line asks for; nothing where it asks for help. */
export function readOptions(): Options | undefined {
  const flag = { type: "boolean", default: false } as const;
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    options: {
      ...{ help: flag, quick: flag, plot: flag, check: flag, record: flag, growth: flag, profile: flag },
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
  const { quick, record, plot, growth, profile } = values;
  const check = values.check || record;
  const pace = quick || check ? QUICK : FULL;
  return {
    mode: check ? "check" : growth ? "growth" : profile ? "profile" : "compete",
    forms: whole(values.forms, "forms", pace.forms),
    rounds: whole(values.rounds, "rounds", pace.rounds),
    seconds: whole(values.seconds, "seconds", pace.seconds),
    connections: whole(values.connections, "connections", 32),
    minutes: whole(values.minutes, "minutes", 10),
    warmSeconds: pace.warmSeconds,
    only: values.only?.split(",").filter(Boolean) ?? [],
    name: values.name ?? "latest",
    quick,
    record,
    plot,
  };
}
