// Separate from schema.ts so that the commands' help can import it without loading the core.

/**
 * `waiting`: no attempt yet; `running`: being sent; `retrying`: failed, next attempt at `runAt`; `failed`: given up;
 * `expired`: not sent in time (see `expiry.ts`).
 */
export const STATES = ["waiting", "running", "retrying", "failed", "expired"] as const;

export type State = (typeof STATES)[number];
