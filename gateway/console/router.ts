import type { appRouter } from "../../server/router.js";

/** Temporary. */
export type ConsoleRouter = typeof appRouter;
