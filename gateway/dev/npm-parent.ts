import { readFileSync } from "node:fs";

const POLL_MS = 500;

/**
 * Calls back when the npm that started this process through a shell has exited. npm forwards SIGTERM only to the shell,
 * and SIGHUP to no process, so this process would keep running.
 */
export function onNpmExit(callback: () => void): void {
  if (!process.env.npm_lifecycle_event) return;
  const initial = parentIds();
  const timer = setInterval(() => {
    if (parentIds() === initial) return;
    clearInterval(timer);
    callback();
  }, POLL_MS).unref();
}

/** The process ids of this process's parents: npm, or the shell and, if /proc exists, npm. */
function parentIds(): string {
  const { ppid } = process;
  try {
    const [, name = "", npm] = /\((.*)\) \S (\d+)/.exec(readFileSync(`/proc/${ppid}/stat`, "utf8")) ?? [];
    return /^(ba|da|k|z)?sh$/.test(name) ? `${ppid} ${npm}` : `${ppid}`;
  } catch {
    return `${ppid}`;
  }
}
