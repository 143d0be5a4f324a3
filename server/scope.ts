/**
 * Restricts SQL over `memberships m` to the listings in scope of a key holder; `user` is the placeholder of the holder's
 * user id. Which roles are in scope is known to the database's function `grants_scope` alone.
 */
export const membershipInScope = (user: string) => `m.user_id = ${user}::uuid AND grants_scope(m.role)`;
