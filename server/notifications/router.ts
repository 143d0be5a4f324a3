import { z } from "zod";
import { operatorProcedure, router } from "../trpc.js";
import { countNotifications, listNotifications } from "./list.js";
import { retryNotification } from "./retry.js";
import { notification, notificationCounts, retryInput } from "./schema.js";

export const notificationsRouter = router({
  /** Unsent notifications, oldest first. Operator. */
  list: operatorProcedure.output(z.array(notification)).query(({ ctx }) => listNotifications(ctx)),
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
