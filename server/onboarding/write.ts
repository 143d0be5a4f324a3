import type { Context } from "../context.js";
import { listings } from "./listings.js";
import { writeMemberships } from "./memberships.js";
import { type Counts, type Row, rowsOf } from "./schema.js";
import { upsert } from "./upsert.js";
import { users } from "./users.js";

/** Writes a batch of rows of one type. Writing it again changes nothing. */
export function writeRows(context: Context, rows: readonly Row[]): Promise<Counts> {
  switch (rows[0]?.type) {
    case "user":
      return upsert(context, users, rowsOf(rows, "user"));
    case "listing":
      return upsert(context, listings, rowsOf(rows, "listing"));
    default:
      return writeMemberships(context, rowsOf(rows, "membership"));
  }
}
