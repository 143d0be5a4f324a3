/**
 * SQL condition that restricts `memberships m` to a user's scope; `user` is the placeholder of the user id. Only the database
 * function `grants_scope` knows which roles are in scope.
 */
export const membershipInScope = (user: string) => `m.user_id = ${user}::uuid AND grants_scope(m.role)`;
