/** The part of all rounds to run, above 0 and up to 1. */
const PART = Number(process.env.FAULT_ROUNDS || 1);
if (!(PART > 0 && PART <= 1)) throw new Error("FAULT_ROUNDS must be a number above 0, up to 1.");

/** How many of a test's full rounds this run makes, but `least` at least. */
export const rounds = (full: number, least = 1) => Math.min(full, Math.max(least, Math.ceil(full * PART)));
