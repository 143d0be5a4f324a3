// Separate from paging.ts so that the commands' help can import it without loading the core.

/** Items per page. */
export const DEFAULT_LIMIT = 50;
export const MAX_LIMIT = 100;
