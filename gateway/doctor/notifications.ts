import { readQueueHealth } from "../../server/notifications/health.js";
import { type DatabaseCheck, ok, warning } from "./check.js";

export const notificationsCheck: DatabaseCheck = {
  name: "notifications",
  async run(_examined, db) {
    const { waiting, overdue, stale, failed } = await readQueueHealth(db);
    const troubles = [
      overdue > 0 && `${overdue} overdue for over a minute: is a worker running (\`serve\` or \`worker\`)?`,
      stale > 0 && `${stale} left by a stale worker: any running worker takes them over within a minute.`,
      failed > 0 && `${failed} failed: see \`guest-forms notifications\`, then retry or erase.`,
    ].filter((trouble) => trouble !== false);
    return troubles.length > 0
      ? warning(troubles.join(" "))
      : ok(`${waiting} waiting, none overdue or failed.`);
  },
};
