import MiniSearch, { type SearchResult } from "minisearch";

/** A heading of a page, with the text below it. */
export interface Entry {
  url: string;
  page: string;
  title: string;
  text: string;
}

/** With fewer results, those with some of the words follow. */
const ENOUGH = 3;

const STOP_WORDS = new Set(
  (
    "a about after all an and any are as at be by can could did do does each for from get gives happens has have how i if in into " +
    "is it its make many me mean means my of on one or our should so some than that the their them then there these this to " +
    "until use using want was we what when where which who why will with without would you your"
  ).split(" "),
);

/** In each row, words that are found for each other. */
const SYNONYMS = [
  "form booking reservation stay",
  "listing property apartment unit accommodation",
  "key token credential",
  "webhook callback notification",
  "cancel delete remove",
  "paging pagination page cursor",
  "limit 429 throttle throttling quota too",
  "retry idempotent idempotency duplicate twice again",
  "guest visitor traveler",
  "error failure problem exception",
  "invitation email",
  "authentication authenticate login",
  "test fake mock sandbox",
  "change update edit modify",
  "date checkInDate checkOutDate arrival departure",
];

const CANONICAL = new Map(
  SYNONYMS.map((row) => row.toLowerCase().split(" ")).flatMap((row) => row.map((word) => [word, row[0]] as const)),
);

/** The first word of the row, for a plural too. */
function canonicalOf(term: string): string {
  const word = term.toLowerCase();
  return CANONICAL.get(word) ?? CANONICAL.get(word.replace(/s$/, "")) ?? word;
}

/**
 * Returns the search. A word also finds words that begin with it and, from five characters on, words with one typing error. What is
 * found has every word of the query; if too little has, some of them, those with the most words first.
 */
export function createSearch(entries: readonly Entry[]): (query: string) => SearchResult[] {
  const index = new MiniSearch<Entry>({
    idField: "url",
    fields: ["title", "page", "text"],
    storeFields: ["url", "title", "page", "text"],
    processTerm: (term) => [term.toLowerCase(), canonicalOf(term)],
    searchOptions: {
      processTerm: (term) => !STOP_WORDS.has(term.toLowerCase()) && canonicalOf(term),
      prefix: true,
      fuzzy: (word) => (word.length < 5 ? false : 1),
      boost: { title: 3, page: 2 },
    },
  });
  index.addAll(entries);
  const countWords = ({ queryTerms }: SearchResult) => new Set(queryTerms).size;
  return (query) => {
    const found = index.search(query, { combineWith: "AND" });
    if (found.length >= ENOUGH) return found;
    return index.search(query).sort((a, b) => countWords(b) - countWords(a) || b.score - a.score);
  };
}
