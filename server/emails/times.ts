/** Writes a day, or with `timeStyle` also the time of it, as usual in a locale. */
export function formatTime(at: string, locale: string, options: { timeZone: string; timeStyle?: "short" }): string {
  const text = new Intl.DateTimeFormat(locale, { dateStyle: "full", ...options }).format(new Date(at));
  const { language } = new Intl.Locale(locale);
  return (
    text
      // Intl has neither the French "1er" nor the German "Uhr".
      .replace(/(?<= )1(?= )/, language === "fr" ? "1er" : "1")
      .replace(/\d\d:\d\d$/, language === "de" ? "$& Uhr" : "$&")
      // A day stays with its month, and a time is not alone on a line.
      .replace(/(?<=\b\d\d?(?:\.|er)?) (?=\p{L})| (?=\d+:\d\d)/gu, "\u00a0")
  );
}

export function nameTimeZone(locale: string, timeZone: string): string {
  const parts = new Intl.DateTimeFormat(locale, { timeZone, timeZoneName: "longGeneric" }).formatToParts();
  return parts.find(({ type }) => type === "timeZoneName")?.value ?? timeZone;
}
