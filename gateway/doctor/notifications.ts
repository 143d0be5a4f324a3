import { readQueueHealth } from "../../server/notifications/health.js";
import { type DatabaseCheck, ok, warning } from "./check.js";

export const notificationsCheck: DatabaseCheck = {
  name: "notifications",
  async run(_context, db) {
    const { waiting, overdue, stale, failed } = await readQueueHealth(db);
    const problems = [
      overdue > 0 &&
        `${overdue} overdue by more than a minute: check that a worker is running (\`serve\` or \`worker\`).`,
      stale > 0 && `${stale} left by a stale worker: a running worker takes over within a minute.`,
      failed > 0 && `${failed} failed: run \`guest-forms notifications\`, then retry or erase them.`,
    ].filter((problem) => problem !== false);
    return problems.length > 0
      ? warning(problems.join(" "))
      : ok(`${waiting} waiting, none overdue or failed.`);
  },
};
