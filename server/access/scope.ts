/**
 * SQL condition that restricts `memberships m` to those that put the listing in the scope of their users. Only the database
 * function `grants_scope` knows which roles do.
 */
export const GRANTS_SCOPE = "grants_scope(m.role)";

/** SQL condition that restricts `memberships m` to a user's scope; `user` is the placeholder of the user id. */
export const membershipInScope = (user: string) => `m.user_id = ${user}::uuid AND ${GRANTS_SCOPE}`;
