import type { z } from "zod";
import type { Prisma } from "../../prisma/client/client.js";
import type { Context, Services, UserPrincipal } from "../access/context.js";
import { audit } from "../audit.js";
import { queryIn, type Sql, type Transaction } from "../database/db.js";
import { invalid, notFound, ServiceError } from "../errors.js";
import { type Page, readPage } from "../resources/paging.js";
import { selectList, selectOf } from "../resources/resource.js";
import { canonicalEmail, resourceId } from "../values.js";
import type * as schema from "./schema.js";
import { type User, user } from "./schema.js";

const SELECT = selectOf(user);

const projectUser = (row: Prisma.UserGetPayload<{ select: typeof SELECT }>): User => ({
  ...row,
  createdAt: row.createdAt.toISOString(),
});

export function createUser(context: Context, input: z.output<typeof schema.createUserInput>): Promise<User> {
  return context.services.db.transaction(async (tx) => {
    const [row] = await tx.user.createManyAndReturn({
      data: [{ email: canonicalEmail(input.email), name: input.name ?? null }],
      skipDuplicates: true,
      select: SELECT,
    });
    if (!row) {
      const [taken] = await findByEmail(tx, input.email);
      throw invalid([{ field: "email", issue: `a user with this address already exists: ${taken?.id}` }]);
    }
    await audit(tx, context, "user.created", row.id);
    return projectUser(row);
  });
}

export async function getUser({ services }: Context, id: string): Promise<User> {
  const row = await services.db.prisma.user.findUnique({ where: { id }, select: SELECT });
  if (!row) throw notFound();
  return projectUser(row);
}

export async function findUserByEmail(context: Context, email: string): Promise<User> {
  const [found] = await findByEmail(context.services.db, email);
  if (!found) throw notFound();
  return getUser(context, found.id);
}

const NEWEST = `
  SELECT ${selectList(user, "u")}
  FROM users u
  WHERE (u.created_at, u.id) < ($1::timestamptz, $2::uuid)
  ORDER BY u.created_at DESC, u.id DESC
  LIMIT $3::int`;

export const listUsers = (
  { services: { db, keyring } }: Context,
  input: z.output<typeof schema.listUsersInput>,
): Promise<Page<User>> =>
  readPage(input, {
    keys: keyring.cursor,
    identity: { list: "users" },
    order: "newest first",
    read: (page) => db.query<User>("newest-users", NEWEST, page),
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
