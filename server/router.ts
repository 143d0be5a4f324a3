import { auditRouter } from "./audit-trail/router.js";
import { formsRouter } from "./forms/router.js";
import { keysRouter } from "./keys/router.js";
import { listingsRouter } from "./listings/router.js";
import { notificationsRouter } from "./notifications/router.js";
import { membersRouter, peopleRouter, usersRouter } from "./people/router.js";
import { router } from "./trpc.js";

/**
 * Every procedure of the service. The six with an `openapi` meta are the public operations; all others are the
 * operator's, and a few of them the application's users' too. Failures are ServiceErrors (`errors.ts`), for
 * in-process callers and over HTTP alike.
 */
export const appRouter = router({
  forms: formsRouter,
  listings: listingsRouter,
  users: usersRouter,
  members: membersRouter,
  people: peopleRouter,
  keys: keysRouter,
  notifications: notificationsRouter,
  audit: auditRouter,
});

export type AppRouter = typeof appRouter;
