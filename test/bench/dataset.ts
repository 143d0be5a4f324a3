// Holders and listings of the benchmark database. Listings and forms are numbered from 1, forms in order of creation.

export const LISTINGS = 20_000;

export type HolderName = "one" | "ten" | "thousand" | "tenThousand" | "new" | "live";

export interface DatasetHolder {
  name: HolderName;
  /** Number of the holder's first listing. The others follow it. */
  firstListing: number;
  listings: number;
}

/**
 * The forms of "new" are all in the last 5% of the forms. The forms of "live" are created in the hour before the run
 * (`live-operations.ts`).
 */
export const HOLDERS: readonly DatasetHolder[] = [
  { name: "one", firstListing: 1, listings: 1 },
  { name: "ten", firstListing: 2, listings: 10 },
  { name: "thousand", firstListing: 12, listings: 1_000 },
  { name: "tenThousand", firstListing: 1_012, listings: 10_000 },
  { name: "new", firstListing: 19_501, listings: 500 },
  { name: "live", firstListing: 19_491, listings: 10 },
];

export function findHolder(name: HolderName): DatasetHolder {
  const found = HOLDERS.find((candidate) => candidate.name === name);
  if (!found) throw new Error(`There is no holder ${name}.`);
  return found;
}

/** The email of the holder's user. */
export const emailOf = (name: HolderName) => `holder${HOLDERS.indexOf(findHolder(name)) + 1}@example.com`;

/** Number of other holders, who share the remaining listings. */
export const OTHER_HOLDERS = 2_000;

/** The forms were created in the three years from this instant on. */
export const FIRST_FORM_AT = "2022-01-01T00:00:00Z";
export const SPAN_MS = 3 * 365 * 86_400_000;
