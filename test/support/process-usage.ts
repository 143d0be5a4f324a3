import { readFileSync } from "node:fs";

/** Microseconds per clock tick in /proc: USER_HZ is 100 on every Linux that Node.js supports. */
const TICK_US = 10_000;

/**
 * CPU time in microseconds of a process and all its descendants, including those that have exited. For Postgres, pass
 * the postmaster.
 */
export function cpuMicroseconds(pid: number): number {
  const stat = readOrEmpty(`/proc/${pid}/stat`);
  // Fields are counted after the process name, which is in parentheses and may contain anything.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return childrenOf(pid).reduce((sum, child) => sum + cpuMicroseconds(child), ticks * TICK_US);
}

/** Resident memory of a process in bytes, without its children. */
export function residentBytes(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(readOrEmpty(`/proc/${pid}/status`))?.[1]) * 1024;
}

const childrenOf = (pid: number): number[] =>
  readOrEmpty(`/proc/${pid}/task/${pid}/children`).split(" ").filter(Boolean).map(Number);

/** The process may have exited. */
function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
