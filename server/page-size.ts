// Apart from paging.ts, for the commands' help, which loads nothing of the core.

/** Items of a page where no limit is given. */
export const DEFAULT_LIMIT = 50;
export const MAX_LIMIT = 100;
