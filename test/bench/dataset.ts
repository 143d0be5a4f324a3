/** Who holds what in the filled database. Listings are numbered from 1, forms from 1 in the order of creation. */

export const LISTINGS = 20_000;

export type HolderName = "one" | "ten" | "thousand" | "tenThousand" | "new" | "live";

export interface Holder {
  name: HolderName;
  /** Number of the first of the holder's listings, which follow each other. */
  first: number;
  listings: number;
}

/**
 * The listings of "new" are new: all of their forms are in the last twentieth of the forms. Those of "live" have only
 * forms created in the hour before the run (`live.ts`).
 */
export const HOLDERS: readonly Holder[] = [
  { name: "one", first: 1, listings: 1 },
  { name: "ten", first: 2, listings: 10 },
  { name: "thousand", first: 12, listings: 1_000 },
  { name: "tenThousand", first: 1_012, listings: 10_000 },
  { name: "new", first: 19_501, listings: 500 },
  { name: "live", first: 19_491, listings: 10 },
];

export function holder(name: HolderName): Holder {
  const found = HOLDERS.find((candidate) => candidate.name === name);
  if (!found) throw new Error(`There is no holder ${name}.`);
  return found;
}

/** The address of the holder's user. */
export const emailOf = (name: HolderName) => `holder${HOLDERS.indexOf(holder(name)) + 1}@example.com`;

/** The listings between the holders' belong to this many other people. */
export const OTHERS = 2_000;

/** The forms are of the three years from here on. */
export const FIRST_FORM = "2022-01-01T00:00:00Z";
export const SPAN_MS = 3 * 365 * 86_400_000;
