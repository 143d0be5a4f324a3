/**
 * An address and start-up options for pg, which would take the `options` of the address in place of ours: ours go
 * behind them, and of a setting the last counts.
 */
export function withOptions(url: string, ours: Record<string, string>) {
  const address = URL.canParse(url) ? new URL(url) : undefined;
  const given = address?.searchParams.get("options") ?? "";
  if (given) address?.searchParams.delete("options");
  const options = Object.entries(ours).map(([name, value]) => `-c ${name}=${value}`);
  return {
    connectionString: given && address ? address.href : url,
    options: [given, ...options].join(" ").trim(),
  };
}
