import type { FieldError } from "../errors.js";
import type { Line } from "./schema.js";

/** A valid row and where it is. */
export interface RowWithLine<Row> {
  line: number;
  row: Row;
}

/** Records errors about a line. */
export type AddErrors = (line: number, errors: readonly FieldError[]) => void;

/** Finds values that a file has twice. */
export class DuplicateFinder {
  private readonly lines = new Map<string, number>();

  /** Returns an issue that names the first line, unless this is the first use of the value. */
  issuesOf(field: string, value: string, line: number, issue: string): FieldError[] {
    const key = JSON.stringify([issue, field, value]);
    const first = this.lines.get(key);
    if (first === undefined) this.lines.set(key, line);
    return first === undefined ? [] : [{ field, issue: `${issue} line ${first}` }];
  }
}

/**
 * The users or listings of the file, by every name that a membership row may use. Rows that are invalid for another reason
 * count too: memberships that refer to them are not at fault.
 */
export class FileNames {
  private readonly externalIds = new Set<string>();
  private readonly externalIdByEmail = new Map<string, string>();
  private readonly storedIds = new Map<string, string>();
  private readonly stored = new Set<string>();

  constructor(lines: readonly Line[], type: "user" | "listing") {
    for (const { value } of lines) {
      const fields = new Map<string, unknown>(Object.entries(value ?? {}));
      const externalId = trimmed(fields.get("externalId"));
      if (fields.get("type") !== type || !externalId) continue;
      this.externalIds.add(externalId);
      const email = trimmed(fields.get("email")).toLowerCase();
      if (!this.externalIdByEmail.has(email)) this.externalIdByEmail.set(email, externalId);
    }
  }

  /** Records that the row with this external id is stored under this id. */
  setStoredId(externalId: string, id: string): void {
    this.storedIds.set(externalId, id);
    this.stored.add(id);
  }

  /** Whether a row of the file is stored under this id. */
  isStored = (id: string): boolean => this.stored.has(id);

  /** The row with this external id. Undefined if the file has none. */
  find(externalId: string | undefined): Reference | undefined {
    if (externalId === undefined || !this.externalIds.has(externalId)) return undefined;
    const id = this.storedIds.get(externalId);
    return { id, key: id ?? `new ${externalId}` };
  }

  /** The row with this email address, ignoring case. Undefined if the file has none. */
  findByEmail = (email: string): Reference | undefined => this.find(this.externalIdByEmail.get(email.toLowerCase()));
}

/** The user or listing that a membership refers to. Two references to the same one have the same `key`. */
export interface Reference {
  key: string;
  /** Undefined if the import creates it. */
  id: string | undefined;
}

const trimmed = (value: unknown) => (typeof value === "string" ? value.trim() : "");
