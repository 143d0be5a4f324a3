import type { Call, Services, UserPrincipal } from "../access/context.js";
import { audit } from "../audit.js";
import { queryIn, type Sql, type Transaction } from "../database/db.js";
import { invalid, notFound, ServiceError } from "../errors.js";
import { type Page, readPage } from "../resources/paging.js";
import { selectList, selectOf, toSqlRow } from "../resources/resource.js";
import { canonicalEmail, resourceId } from "../values.js";
import type * as schema from "./schema.js";
import { type User, user } from "./schema.js";

const SELECT = selectOf(user);

export const createUser = ({ ctx, input }: Call<typeof schema.createUserInput>): Promise<User> =>
  ctx.services.db.transaction(async (tx) => {
    const [row] = await tx.user.createManyAndReturn({
      data: [{ email: canonicalEmail(input.email), name: input.name ?? null }],
      skipDuplicates: true,
      select: SELECT,
    });
    if (!row) {
      const [taken] = await findByEmail(tx, input.email);
      throw invalid([{ field: "email", issue: `a user with this address already exists: ${taken?.id}` }]);
    }
    await audit(tx, ctx, "user.created", row.id);
    return toSqlRow(row);
  });

export async function getUser({ ctx, input: { id } }: Call<typeof schema.getUserInput>): Promise<User> {
  const row = await ctx.services.db.prisma.user.findUnique({ where: { id }, select: SELECT });
  if (!row) throw notFound();
  return toSqlRow(row);
}

export async function findUserByEmail({ ctx, input }: Call<typeof schema.findUserInput>): Promise<User> {
  const [found] = await findByEmail(ctx.services.db, input.email);
  if (!found) throw notFound();
  return getUser({ ctx, input: found });
}

const NEWEST = `
  SELECT ${selectList(user, "u")}
  FROM users u
  WHERE (u.created_at, u.id) < ($1::timestamptz, $2::uuid)
  ORDER BY u.created_at DESC, u.id DESC
  LIMIT $3::int`;

export const listUsers = ({ ctx, input }: Call<typeof schema.listUsersInput>): Promise<Page<User>> =>
  readPage(ctx, input, {
    identity: { list: "users" },
    order: "newest first",
    read: (page) => ctx.services.db.query<User>("newest-users", NEWEST, page),
    project: (row) => row,
  });

const BY_EMAIL = `SELECT id FROM users WHERE lower(email COLLATE "C") = $1`;

const findByEmail = (tx: Sql | Transaction, email: string) =>
  queryIn<{ id: string }>(tx, "user-by-email", BY_EMAIL, [email.toLowerCase()]);

/** The principal for an internal tool that acts for a user; UNAUTHENTICATED if there is no such user. */
export async function actAs({ db }: Services, userId: string): Promise<UserPrincipal> {
  const [found] = await findUser(db, resourceId.parse(userId));
  if (!found) throw new ServiceError("UNAUTHENTICATED", { message: "There is no user with this id." });
  return { kind: "user", userId: found.id };
}

const findUser = (tx: Sql | Transaction, id: string) =>
  queryIn<{ id: string }>(tx, "user", "SELECT id FROM users WHERE id = $1::uuid", [id]);

/** Throws VALIDATION_ERROR about `field` unless the user exists. */
export async function assertUserExists(tx: Sql | Transaction, id: string, field: string): Promise<void> {
  const [found] = await findUser(tx, id);
  if (!found) throw invalid([{ field, issue: "no user has this id" }]);
}
