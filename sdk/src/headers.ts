import { GuestFormsError, redact } from "./errors.js";

/** Headers by lower-case name, without the key. */
export function readHeaders(source: { forEach(visit: (value: string, name: string) => void): void }, key: string) {
  const entries: [string, string][] = [];
  source.forEach((value, name) => {
    entries.push([name.toLowerCase(), redact(value, key)]);
  });
  return Object.fromEntries(entries);
}

/** Merges headers by lower-case name; the last one wins. Validates them, because errors of `fetch` quote invalid values. */
export function mergeHeaders(...layers: (Record<string, string | undefined> | undefined)[]): Record<string, string> {
  const merged = new Map<string, string>();
  for (const [name, value] of layers.flatMap((layer) => Object.entries(layer ?? {}))) {
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || !/^[\t -~\x80-\xff]*$/.test(value ?? "")) {
      throw new GuestFormsError(`The header ${JSON.stringify(name)} contains characters that HTTP does not allow`);
    }
    if (value === undefined) merged.delete(name.toLowerCase());
    else merged.set(name.toLowerCase(), value);
  }
  return Object.fromEntries(merged);
}
