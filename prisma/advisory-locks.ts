// Keys of Postgres advisory locks: arbitrary, one per purpose, and the same in every version of this package.

/** Held while a process migrates the database. */
export const MIGRATE = 7_270_731_554;

/** Held while the settings of the pooler's role are changed. */
export const ROLE_SETTINGS = 7_270_731_555;

/** Held while secrets are registered. */
export const SECRET_CHECKS = 7_270_731_556;

/** Shared by transactions that create a form, so that readers can wait for them. Two keys of 32 bits. */
export const CREATING_FORM = "727073, 1";
