import type { Prisma } from "../prisma/client/client.js";
import type { Holder } from "./context.js";
import type { Db, Transaction } from "./db.js";

/**
 * The roles that put a listing in scope. READER is not among them, for reads neither. The triggers that keep
 * `scoped_forms` know them too.
 */
export const SCOPE_ROLES = ["OWNER", "WRITER"] as const;

/** The listings in the holder's scope, as a condition of Prisma's typed client. */
export function inScope(holder: Holder): Prisma.ListingWhereInput {
  return { memberships: { some: { userId: holder.userId, role: { in: [...SCOPE_ROLES] } } } };
}

/** The same as SQL over `memberships m`; `user` is the placeholder of the holder's user id. */
export const membershipInScope = (user: string) =>
  `m.user_id = ${user}::uuid AND m.role IN (${SCOPE_ROLES.map((role) => `'${role}'`).join(", ")})`;

/** Runs `work`, which changes memberships, in a transaction of the one isolation level that their triggers take. */
export const changingScope = <Result>(db: Db, work: (tx: Transaction) => Promise<Result>): Promise<Result> =>
  db.transaction(async (tx) => {
    await tx.$executeRaw`SET TRANSACTION ISOLATION LEVEL READ COMMITTED`;
    return work(tx);
  });
