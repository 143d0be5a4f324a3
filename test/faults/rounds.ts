/** The fraction of all rounds to run, above 0 and up to 1. */
const FRACTION = Number(process.env.FAULT_ROUNDS || 1);
if (!(FRACTION > 0 && FRACTION <= 1)) throw new Error("FAULT_ROUNDS must be above 0 and at most 1.");

/** Scales a test's full number of rounds by FAULT_ROUNDS, to `min` or more. */
export const scaleRounds = (full: number, min = 1) => Math.min(full, Math.max(min, Math.ceil(full * FRACTION)));
