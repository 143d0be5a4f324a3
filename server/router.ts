import { auditRouter } from "./audit-trail/router.js";
import { emailsRouter } from "./emails/router.js";
import { peopleRouter } from "./erasure/router.js";
import { findRouter } from "./find/router.js";
import { formsRouter } from "./forms/router.js";
import { keysRouter } from "./keys/router.js";
import { listingsRouter } from "./listings/router.js";
import { membersRouter } from "./memberships/router.js";
import { onboardingRouter } from "./onboarding/router.js";
import { secretsRouter } from "./secrets/router.js";
import { router } from "./trpc.js";
import { usersRouter } from "./users/router.js";
import { webhooksRouter } from "./webhooks/router.js";

/**
 * Every procedure of the service. Those with `openapi` metadata are the public operations. The others are for the
 * operator, some also for users of the application. All failures are ServiceErrors (`errors.ts`).
 */
export const appRouter = router({
  forms: formsRouter,
  listings: listingsRouter,
  users: usersRouter,
  members: membersRouter,
  people: peopleRouter,
  find: findRouter,
  onboarding: onboardingRouter,
  keys: keysRouter,
  emails: emailsRouter,
  audit: auditRouter,
  secrets: secretsRouter,
  webhooks: webhooksRouter,
});

export type AppRouter = typeof appRouter;
