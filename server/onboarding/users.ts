import type { Sql } from "../db.js";
import { canonicalEmail, isUuid } from "../values.js";
import type { UserRow } from "./schema.js";
import { changesOf, type Target, type Upsert } from "./upsert.js";

interface StoredUser {
  id: string;
  externalId: string | null;
  email: string;
  name: string | null;
}

/** Stored users by what a file may call them. */
export interface UserIndex {
  byName(name: string): StoredUser | undefined;
  byEmail(email: string): StoredUser | undefined;
}

const FIND = `
  SELECT id, external_id AS "externalId", email, name FROM users
  WHERE external_id = ANY ($1::text[]) OR id = ANY ($2::uuid[]) OR lower(email COLLATE "C") = ANY ($3::text[])`;

/** Loads the users with these names (external ids or ids) or email addresses. */
export async function findUsers(
  sql: Sql,
  names: readonly string[],
  emails: readonly string[],
): Promise<UserIndex> {
  const lowerCase = emails.map((email) => email.toLowerCase());
  const users = await sql.query<StoredUser>("users-of-file", FIND, [names, names.filter(isUuid), lowerCase]);
  const byExternalId = new Map(users.map((user) => [user.externalId, user]));
  const byId = new Map(users.map((user) => [user.id, user]));
  const byEmail = new Map(users.map((user) => [user.email.toLowerCase(), user]));
  return {
    byName: (name) => byExternalId.get(name) ?? byId.get(name.toLowerCase()),
    byEmail: (email) => byEmail.get(email.toLowerCase()),
  };
}

async function planUsers(sql: Sql, rows: readonly UserRow[]): Promise<Upsert<UserRow>[]> {
  const names = rows.map(({ externalId }) => externalId);
  const emails = rows.map(({ email }) => email);
  const users = await findUsers(sql, names, emails);
  return rows.map((row) => planUser(users, row));
}

/** A user without external id who has the row's address is the same user, and gets the row's external id. */
function planUser(users: UserIndex, row: UserRow): Upsert<UserRow> {
  const named = users.byName(row.externalId);
  const holder = users.byEmail(row.email);
  const stored = named ?? (holder?.externalId === null ? holder : undefined);
  const given = {
    email: canonicalEmail(row.email),
    ...(row.name !== undefined && { name: row.name }),
    ...(!named && { externalId: row.externalId }),
  };
  return {
    row,
    id: stored?.id,
    change: stored ? changesOf<StoredUser>(stored, given) : {},
    issues:
      holder && holder.id !== stored?.id
        ? [{ field: "email", issue: `another user has this address: ${holder.id}` }]
        : [],
  };
}

const columns = ["external_id", "email", "name"];

export const users: Target<UserRow> = {
  table: "users",
  columns: { insert: columns, update: columns },
  noun: "user",
  plan: planUsers,
  unique: ({ externalId, email }) => ({ externalId, email: email.toLowerCase() }),
  toNew: ({ externalId, email, name }) => ({ externalId, email: canonicalEmail(email), name }),
};
