import type { Call, Services, UserPrincipal } from "../access/context.js";
import { audit } from "../audit-trail/audit.js";
import type { Sql } from "../database/db.js";
import { invalid, notFound, ServiceError } from "../errors.js";
import { type Page, readPage } from "../resources/paging.js";
import { containsSql, selectList } from "../resources/resource.js";
import { canonicalEmail, omitUndefined, resourceId, uuidOrNull } from "../values.js";
import type * as schema from "./schema.js";
import { type User, user } from "./schema.js";

const COLUMNS = selectList(user, "u");

/** What an erasure leaves of an address, which is unique and not null. No address ends with `.invalid` (RFC 2606). */
export const ERASED_EMAIL = "id || '@erased.invalid'";

const CREATE = `INSERT INTO users AS u (email, name) VALUES ($1, $2) RETURNING ${COLUMNS}`;

export const createUser = ({ ctx, input }: Call<typeof schema.createUserInput>): Promise<User> =>
  ctx.services.db.sqlTransaction(async (tx) => {
    await assertFree(tx, input.email);
    const [row] = await tx.query<User>("insert-user", CREATE, [canonicalEmail(input.email), input.name]);
    if (!row) throw new Error("the statement wrote no user");
    await audit(tx, ctx, "user.created", row.id);
    return row;
  });

const GET = `SELECT ${COLUMNS} FROM users u WHERE u.id = $1::uuid`;

export async function getUser({ ctx, input: { id } }: Call<typeof schema.getUserInput>): Promise<User> {
  const [row] = await ctx.services.db.query<User>("user", GET, [id]);
  if (!row) throw notFound();
  return row;
}

const FIND = `
  SELECT ${COLUMNS}
  FROM users u
  WHERE u.external_id = $1::text OR u.id = $2::uuid OR lower(u.email COLLATE "C") = $3
  LIMIT 2`;

export async function findUser({ ctx, input }: Call<typeof schema.findUserInput>): Promise<User> {
  const values = [input.user, uuidOrNull(input.user), input.user.toLowerCase()];
  const [found, other] = await ctx.services.db.query<User>("find-user", FIND, values);
  if (!found) throw notFound();
  if (other)
    throw invalid([{ field: "user", issue: `two users have this address or external id: ${found.id}, ${other.id}` }]);
  return found;
}

const NEWEST = `
  SELECT ${COLUMNS}
  FROM users u
  WHERE (u.created_at, u.id) < ($1::timestamptz, $2::uuid)
    AND ${containsSql("$4", ["u.email", "u.name", "u.external_id"])}
  ORDER BY u.created_at DESC, u.id DESC
  LIMIT $3::int`;

export const listUsers = ({ ctx, input }: Call<typeof schema.listUsersInput>): Promise<Page<User>> =>
  readPage(ctx, input, {
    identity: { list: "users", filters: { search: input.search } },
    order: "newest first",
    read: (page) => ctx.services.db.query<User>("newest-users", NEWEST, [...page, input.search ?? null]),
    project: (row) => row,
  });

const BY_EMAIL = `SELECT id FROM users WHERE lower(email COLLATE "C") = $1`;

/** Throws if another user has the address. If another transaction takes it meanwhile, the write fails and is retried. */
async function assertFree(tx: Sql, email: string, id?: string): Promise<void> {
  const [taken] = await tx.query<{ id: string }>("user-by-email", BY_EMAIL, [email.toLowerCase()]);
  if (taken && taken.id !== id)
    throw invalid([{ field: "email", issue: `a user with this address already exists: ${taken.id}` }]);
}

// Populates from the current row, so that fields that are not given keep their values. Never writes to an erased user.
const UPDATE = `
  UPDATE users u SET (email, name) = (SELECT p.email, p.name FROM jsonb_populate_record(u, $2::jsonb) p)
  WHERE u.id = $1::uuid AND u.email <> u.${ERASED_EMAIL}
  RETURNING ${COLUMNS}`;

export const updateUser = ({ ctx, input }: Call<typeof schema.updateUserInput>): Promise<User> =>
  ctx.services.db.sqlTransaction(async (tx) => {
    const { id, ...change } = input;
    const [stored] = await tx.query<User>("user", GET, [id]);
    if (!stored) throw notFound();
    if (change.email !== undefined) await assertFree(tx, change.email, id);
    const data = omitUndefined({ ...change, email: change.email && canonicalEmail(change.email) });
    const [row] = await tx.query<User>("update-user", UPDATE, [id, JSON.stringify(data)]);
    if (!row) throw notFound();
    const fields = Object.keys(data);
    if (fields.length > 0) await audit(tx, ctx, "user.updated", id, { fields });
    return row;
  });

/** The principal for an internal tool that acts for a user; UNAUTHENTICATED if there is no such user. */
export async function actAs({ db }: Services, userId: string): Promise<UserPrincipal> {
  const [found] = await db.query<User>("user", GET, [resourceId.parse(userId)]);
  if (!found) throw new ServiceError("UNAUTHENTICATED", { message: "There is no user with this id." });
  return { kind: "user", userId: found.id };
}

// Waits for an erasure of the user, and keeps another one waiting: see server/erasure/erase-user.ts.
const LOCK = `
  SELECT id FROM users WHERE id = ANY ($1::uuid[]) AND email <> ${ERASED_EMAIL} ORDER BY id FOR KEY SHARE`;

/** Throws VALIDATION_ERROR about `field` unless the users exist and are not erased, until the end of the transaction. */
export async function lockUsers(tx: Sql, ids: readonly string[], field: string): Promise<void> {
  const wanted = [...new Set(ids)];
  const found = await tx.query<{ id: string }>("lock-users", LOCK, [wanted]);
  if (found.length < wanted.length) throw invalid([{ field, issue: "no user has this id" }]);
}
