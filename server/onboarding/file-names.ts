import type { Line } from "./schema.js";
import type { Stored } from "./upsert.js";

/** The user or listing that a membership refers to. Two references to the same one have the same `key`. */
interface Reference {
  key: string;
  /** Undefined if the import creates it. */
  id: string | undefined;
}

export const referenceTo = (stored: Stored | undefined): Reference | undefined =>
  stored && { key: stored.id, id: stored.id };

/**
 * The users or listings of the file, by every name that a membership row may use. Memberships that refer to an invalid row
 * are not at fault, so they are not reported.
 */
export class FileNames {
  /** By external id; undefined if the row is not stored. */
  readonly #storedIds = new Map<string, string | undefined>();
  readonly #stored = new Set<string>();
  readonly #externalIdByEmail = new Map<string, string>();
  /** The external ids and email addresses of invalid rows. */
  readonly #invalid = new Set<string>();
  /** Whether a row, corrected, may have any external id. */
  #lacksExternalId: boolean;
  /** Whether a row, corrected, may have any email address. */
  #lacksEmail: boolean;

  /** `isPartial` if the file has rows that cannot be read. */
  constructor(lines: readonly Line[], type: "user" | "listing", isPartial: boolean) {
    this.#lacksExternalId = isPartial;
    this.#lacksEmail = isPartial;
    for (const { value } of lines) {
      const { externalId, email } = namesOf(value);
      if (fieldsOf(value).get("type") !== type || !externalId) continue;
      this.#storedIds.set(externalId, undefined);
      if (!this.#externalIdByEmail.has(email)) this.#externalIdByEmail.set(email, externalId);
    }
  }

  /** Records that the row with this external id is stored under this id. */
  setStoredId(externalId: string, id: string): void {
    this.#storedIds.set(externalId, id);
    this.#stored.add(id);
  }

  /** Records that a row is invalid because of these fields. */
  setInvalid(value: unknown, fields: readonly string[]): void {
    const { externalId, email } = namesOf(value);
    for (const name of [externalId, email]) if (name) this.#invalid.add(name);
    if (fields.includes("externalId") || !externalId) this.#lacksExternalId = true;
    if (fields.includes("email")) this.#lacksEmail = true;
  }

  /** Whether an invalid row has this name. */
  isInvalid = (name: string): boolean => this.#invalid.has(name) || this.#invalid.has(name.toLowerCase());

  /** Whether an invalid row has this name, or may have it when it is corrected. */
  mayBeInvalid = (name: string): boolean =>
    this.isInvalid(name) || this.#lacksExternalId || (this.#lacksEmail && name.includes("@"));

  /** Whether a row of the file is stored under this id. */
  isStored = (id: string): boolean => this.#stored.has(id);

  /** The row with this external id. Undefined if the file has none. */
  find(externalId: string | undefined): Reference | undefined {
    if (externalId === undefined || !this.#storedIds.has(externalId)) return undefined;
    const id = this.#storedIds.get(externalId);
    return { id, key: id ?? `new ${externalId}` };
  }

  /** The row with this email address, ignoring case. Undefined if the file has none. */
  findByEmail = (email: string): Reference | undefined => this.find(this.#externalIdByEmail.get(email.toLowerCase()));
}

export const fieldsOf = (value: unknown) => new Map<string, unknown>(Object.entries(value ?? {}));

export const toName = (value: unknown) => (["string", "number"].includes(typeof value) ? String(value).trim() : "");

function namesOf(value: unknown) {
  const fields = fieldsOf(value);
  return { externalId: toName(fields.get("externalId")), email: toName(fields.get("email")).toLowerCase() };
}
