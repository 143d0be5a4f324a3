import type { Db } from "../../server/database/db.js";
import { type Activity, type ActivityCount, readActivity } from "../../server/outbox/activity.js";
import { STALE_AFTER_SECONDS } from "../../server/outbox/figures.js";

/** A run ends every hour. */
const RETENTION_OVERDUE_SECONDS = 7_200;

/** What is wrong with the workers, by their heartbeats and their last retention run. `sendsMail`: emails need a worker too. */
export async function findWorkerProblems(db: Db, sendsMail: boolean): Promise<(string | false)[]> {
  const activity = await readActivity(db);
  const isRecent = (name: Activity) => (activity.get(name)?.age ?? Number.POSITIVE_INFINITY) < STALE_AFTER_SECONDS;
  const [withMailer, withoutMailer] = [isRecent("worker.with_mailer"), isRecent("worker.without_mailer")];
  if (!withMailer && !withoutMailer) {
    const heartbeats = [activity.get("worker.with_mailer"), activity.get("worker.without_mailer")];
    const [last] = heartbeats.filter((heartbeat) => heartbeat !== undefined).sort((a, b) => a.age - b.age);
    const since = last ? ` since ${timeOf(last)}` : "";
    return [`No worker has sent a heartbeat${since}: run \`serve\` or \`worker\`.`];
  }
  const retention = activity.get("retention.run");
  return [
    sendsMail && !withMailer && "No worker that sends mail is running: set SMTP_URL for the workers too.",
    !retention &&
      "No retention run has ended yet. Unless the worker has just started, search its log for `the retention failed`.",
    retention !== undefined &&
      retention.age > RETENTION_OVERDUE_SECONDS &&
      `No retention run has ended since ${timeOf(retention)}: search the log of the workers for \`the retention failed\`.`,
  ];
}

const timeOf = ({ lastAt }: ActivityCount) => new Date(lastAt * 1000).toISOString();
