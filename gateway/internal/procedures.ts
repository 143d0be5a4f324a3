import { appRouter } from "../../server/router.js";

/** Paths of all procedures, such as `forms.create`. tRPC has no public list of a router's procedures. */
export const PROCEDURES: ReadonlySet<string> = new Set(Object.keys(appRouter._def.procedures));
