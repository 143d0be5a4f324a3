const FACTOR = Number(process.env.TEST_ROUNDS || 1);
if (!(FACTOR >= 1)) throw new Error("TEST_ROUNDS must be at least 1.");

/** Multiplies the rounds of a test that searches for races or injects faults, or the length of the soak, by TEST_ROUNDS. */
export const scale = (rounds: number): number => Math.ceil(rounds * FACTOR);
