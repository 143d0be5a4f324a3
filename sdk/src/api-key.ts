import { GuestFormsError } from "./errors.js";

/** An API key, or a function that gives it. */
export type ApiKey = string | (() => string | Promise<string>);

/** The key without white space around it, as files and variables often have. Never quotes it. */
export function checkApiKey(key: unknown): string {
  const trimmed = typeof key === "string" ? key.trim() : "";
  if (!trimmed) throw new GuestFormsError("No API key: pass apiKey or set GUEST_FORMS_API_KEY");
  if (!/^[!-~]+$/.test(trimmed)) throw new GuestFormsError("The API key has characters that no key has");
  return trimmed;
}

/** The key for one request. */
export async function readApiKey(key: ApiKey): Promise<string> {
  if (typeof key === "string") return key;
  let given: unknown;
  try {
    given = await key();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new GuestFormsError(`The apiKey function failed: ${reason}`, { cause });
  }
  return checkApiKey(given);
}
