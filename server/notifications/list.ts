import type { Notification as NotificationRow } from "../../prisma/client/client.js";
import type { Context } from "../context.js";
import { type Notification, STATES, type State } from "./schema.js";

const COLUMNS = { id: true, formId: true, state: true, attempts: true, lastError: true, nextAttemptAt: true };
const UNSENT = { state: { in: [...STATES] } };

/** The notifications not sent yet, oldest first. */
export async function listNotifications({ services }: Context): Promise<Notification[]> {
  const rows = await services.db.prisma.notification.findMany({
    where: UNSENT,
    orderBy: { id: "asc" },
    select: COLUMNS,
  });
  return rows.map(toNotification);
}

/** The unsent notification with this id. */
export async function findNotification({ services }: Context, id: bigint): Promise<Notification | undefined> {
  const row = await services.db.prisma.notification.findUnique({ where: { id, ...UNSENT }, select: COLUMNS });
  return row ? toNotification(row) : undefined;
}

/** How many notifications are in each state. */
export async function countNotifications({ services }: Context): Promise<Record<State, number>> {
  const groups = await services.db.prisma.notification.groupBy({
    by: ["state"],
    where: UNSENT,
    _count: true,
  });
  const counts = new Map<string, number>(groups.map(({ state, _count }) => [state, _count]));
  return Object.fromEntries(STATES.map((state) => [state, counts.get(state) ?? 0])) as Record<State, number>;
}

const toNotification = ({
  id,
  state,
  nextAttemptAt,
  ...rest
}: Pick<NotificationRow, keyof typeof COLUMNS>): Notification => ({
  ...rest,
  id: String(id),
  state: state as State,
  runAt: nextAttemptAt?.toISOString() ?? null,
});
