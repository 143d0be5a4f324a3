import { GuestFormsError } from "./errors.js";

/** An API key, or a function that returns one. */
export type ApiKey = string | (() => string | Promise<string>);

/** Trims surrounding whitespace, common in files and variables. Errors never contain the key. */
export function parseApiKey(key: unknown): string {
  const trimmed = typeof key === "string" ? key.trim() : "";
  if (!trimmed) throw new GuestFormsError("No API key: pass apiKey or set GUEST_FORMS_API_KEY");
  if (!/^[!-~]+$/.test(trimmed)) {
    throw new GuestFormsError("The API key contains invalid characters: check for line breaks and spaces");
  }
  return trimmed;
}

/** Returns the key for one request. */
export async function resolveApiKey(key: ApiKey): Promise<string> {
  if (typeof key === "string") return key;
  let resolved: unknown;
  try {
    resolved = await key();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new GuestFormsError(`The apiKey function failed: ${reason}`, { cause });
  }
  return parseApiKey(resolved);
}
