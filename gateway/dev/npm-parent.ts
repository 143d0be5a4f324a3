import { readFileSync } from "node:fs";

const POLL_MS = 500;

/**
 * Calls back when the npm that has started this process, by a shell, has ended. npm passes SIGTERM on to the shell alone,
 * and SIGHUP to nobody, so this process would run on without them.
 */
export function onNpmEnd(callback: () => void): void {
  if (!process.env.npm_lifecycle_event) return;
  const initial = starters();
  const timer = setInterval(() => {
    if (starters() === initial) return;
    clearInterval(timer);
    callback();
  }, POLL_MS).unref();
}

/** The process ids of what has started this process: npm, or the shell and, where /proc shows it, npm. */
function starters(): string {
  const { ppid } = process;
  try {
    const [, name = "", npm] = /\((.*)\) \S (\d+)/.exec(readFileSync(`/proc/${ppid}/stat`, "utf8")) ?? [];
    return /^(ba|da|k|z)?sh$/.test(name) ? `${ppid} ${npm}` : `${ppid}`;
  } catch {
    return `${ppid}`;
  }
}
