import type { Sql } from "../database/db.js";

const MAX_LANGUAGES = 3;

// As `Templates` finds them: those in `pt` are also for `pt-BR`.
const UNTRANSLATED = `
  SELECT language, listings, (sum(listings) OVER ())::int AS total
  FROM (
    SELECT language, count(*)::int AS listings FROM listings
    WHERE active AND language IS NOT NULL GROUP BY language
  ) AS used
  WHERE NOT EXISTS (
    SELECT FROM unnest($1::text[]) AS known (language) WHERE starts_with(used.language || '-', known.language || '-')
  )
  ORDER BY listings DESC, language LIMIT ${MAX_LANGUAGES}`;

/** Counts active listings in a language without templates: by language for the three with most, and the total. */
export async function countUntranslatedListings(db: Sql, languages: string[]) {
  const counts = await db.query<{ language: string; listings: number; total: number }>(
    "untranslated-listings",
    UNTRANSLATED,
    [languages],
  );
  return { counts, total: counts[0]?.total ?? 0 };
}
