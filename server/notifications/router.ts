import { operatorProcedure, router } from "../trpc.js";
import { readQueueFigures } from "./figures.js";
import * as schema from "./schema.js";
import { listNotifications, retryNotification } from "./store.js";

export const notificationsRouter = router({
  /** Unsent notifications, or those in one state, oldest first. Operator. Errors: INVALID_CURSOR, VALIDATION_ERROR. */
  list: operatorProcedure.input(schema.listInput).output(schema.notificationPage).query(listNotifications),
  /**
   * Resets a notification to its first attempt, due now. One that is being sent is not changed. Operator.
   * Errors: RESOURCE_NOT_FOUND (no such notification, or it was sent), VALIDATION_ERROR (the stay is over, or the form is
   * past SENT).
   */
  retry: operatorProcedure.input(schema.retryInput).output(schema.notification).mutation(retryNotification),
  /** Number of unsent notifications per state. Operator. */
  count: operatorProcedure
    .output(schema.notificationCounts)
    .query(async ({ ctx: { services } }) => (await readQueueFigures(services.db)).counts),
});
