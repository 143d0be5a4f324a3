const NAMES = new Intl.DisplayNames(["en"], { type: "language", fallback: "none" });

export const A_LANGUAGE = "a language such as de or pt-BR";

/** Returns a BCP 47 tag in canonical form, such as pt-BR, or undefined if it is malformed or its language unknown. */
export function canonicalLanguage(tag: string): string | undefined {
  try {
    const locale = new Intl.Locale(tag);
    return NAMES.of(locale.language) && locale.toString();
  } catch {
    return undefined;
  }
}
