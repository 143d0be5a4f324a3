import { operatorProcedure, router } from "../trpc.js";
import { countNotifications, listNotifications } from "./list.js";
import { retryNotification } from "./retry.js";
import { listInput, notification, notificationCounts, notificationPage, retryInput } from "./schema.js";

export const notificationsRouter = router({
  /** Unsent notifications, or those in one state, oldest first. Operator. Errors: INVALID_CURSOR, VALIDATION_ERROR. */
  list: operatorProcedure
    .input(listInput)
    .output(notificationPage)
    .query(({ ctx, input }) => listNotifications(ctx, input)),
  /**
   * Resets a notification to its first attempt, due now. One that is being sent is not changed. Operator.
   * Errors: RESOURCE_NOT_FOUND (no such notification, or it was sent), VALIDATION_ERROR (the stay is over, or the form is
   * past SENT).
   */
  retry: operatorProcedure
    .input(retryInput)
    .output(notification)
    .mutation(({ ctx, input }) => retryNotification(ctx, input.id)),
  /** Number of unsent notifications per state. Operator. */
  count: operatorProcedure.output(notificationCounts).query(({ ctx }) => countNotifications(ctx)),
});
