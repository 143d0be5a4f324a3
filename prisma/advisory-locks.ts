// Keys of Postgres advisory locks. Arbitrary numbers, one per purpose; they must not change between versions.

/** Held while a process migrates the database or registers its secrets. */
export const MIGRATE = 7_270_731_554;

/** Held while changing the settings of the pooler's role. */
export const ROLE_SETTINGS = 7_270_731_555;

/** Held by the worker that deletes a batch of rows past their retention. */
export const RETENTION = 7_270_731_556;

/** Held in shared mode by transactions that create a form, so that readers can find them. Two 32-bit keys. */
export const CREATING_FORM = "727073, 1";

/** Held while a webhook endpoint is created, with a hash of its owner as the second of two 32-bit keys. */
export const CREATING_ENDPOINT = 727_074;
