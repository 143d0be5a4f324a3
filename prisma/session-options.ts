/**
 * Returns pg's connection string and start-up options. In pg, `options` in the URL replace the `options` property, so both
 * are merged; `settings` come last and win.
 */
export function withOptions(url: string, settings: Record<string, string>) {
  const address = URL.canParse(url) ? new URL(url) : undefined;
  const given = address?.searchParams.get("options") ?? "";
  if (given) address?.searchParams.delete("options");
  const options = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  return {
    connectionString: given && address ? address.href : url,
    options: [given, ...options].join(" ").trim(),
  };
}
