import { readFileSync } from "node:fs";

/** Microseconds of a clock tick in /proc: USER_HZ is 100 on every Linux that Node runs on. */
const TICK_US = 10_000;

/**
 * Microseconds of processor time that a process has used with all its threads, and all processes below it, ended ones
 * too: what Postgres uses is that of its postmaster.
 */
export function cpuOf(pid: number): number {
  const stat = readOrEmpty(`/proc/${pid}/stat`);
  // The name, in parentheses, may hold anything: the fields are counted from behind it.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return childrenOf(pid).reduce((sum, child) => sum + cpuOf(child), ticks * TICK_US);
}

/** Bytes of memory that a process holds, without those below it. */
export function memoryOf(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(readOrEmpty(`/proc/${pid}/status`))?.[1]) * 1024;
}

const childrenOf = (pid: number): number[] =>
  readOrEmpty(`/proc/${pid}/task/${pid}/children`).split(" ").filter(Boolean).map(Number);

/** A process may end while it is looked at. */
function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
