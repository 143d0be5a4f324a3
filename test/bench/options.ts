import { parseArgs } from "node:util";

export const HELP = `npm run bench -- [options]
Compares the service with the servers L+ and T, then measures the outbox. See test/bench/README.md.
  --quick          100,000 forms, 2 rounds, no outbox; judges nothing
  --only A,B       only operations whose id starts with A or B, for example fetch, list-, create; no outbox
  --forms N        forms in the database (1,000,000; with --quick, --check or --record 100,000)
  --rounds N       rounds per operation (7; with --quick 2)
Other measurements:
  --check          only L+ and webhook deliveries, compared with recorded.json, as in CI
  --record         writes recorded.json; run it on a quiet machine
  --standby        what reads from a standby cost the primary (100,000 forms, 3 rounds)
  --wal            what creates write to the WAL
  --growth         latency with 10,000 and --forms forms
  --outbox         only emails and webhook deliveries per second
`;

const flag = { type: "boolean", default: false } as const;
const text = { type: "string" } as const;
const MODES = { help: flag, check: flag, record: flag, growth: flag, standby: flag, wal: flag, outbox: flag };

export type Options = ReturnType<typeof readOptions>;

/** Parses the command line. */
export function readOptions(args: string[]) {
  const { values } = parseArgs({ args, options: { ...MODES, quick: flag, forms: text, rounds: text, only: text } });
  const { quick, check, record, standby, only = "" } = values;
  const numberOf = (name: "forms" | "rounds", otherwise: number): number => {
    const given = values[name] ?? String(otherwise);
    if (!/^[1-9]\d*$/.test(given)) throw new Error(`--${name} must be a positive integer.`);
    return Number(given);
  };
  return {
    mode: (Object.keys(MODES) as (keyof typeof MODES)[]).find((mode) => values[mode]) ?? "compare",
    forms: numberOf("forms", quick || check || record || standby ? 100_000 : 1_000_000),
    rounds: numberOf("rounds", quick ? 2 : standby ? 3 : 7),
    /** Prefixes of the operation ids to measure; empty for all. */
    only: only.split(",").filter(Boolean),
    quick,
  };
}
