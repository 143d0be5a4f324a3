import { chmod, mkdtemp, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAlive } from "../support/processes.js";

/**
 * Timeouts of the service that are longer than the clock is off. In a signal handler, libfaketime sometimes returns the
 * real time, so Postgres would consider shorter timeouts expired.
 */
export const LONG_TIMEOUTS = { DATABASE_STATEMENT_TIMEOUT_MS: "60000", DATABASE_LOCK_TIMEOUT_MS: "50000" };

/** A wall clock that can be changed while processes run (libfaketime). Monotonic clocks and timers stay real. */
export class FakedClock {
  /** Environment variables of a process that uses this clock. */
  readonly env: Record<string, string>;
  readonly #folder: string;

  private constructor(folder: string, library: string) {
    this.#folder = folder;
    this.env = {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: join(folder, "offset"),
      // Reads the offset on every call, so that all processes see a change at the same time.
      FAKETIME_NO_CACHE: "1",
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
      NO_FAKE_STAT: "1",
    };
  }

  static async create(): Promise<FakedClock> {
    const library = await findLibrary();
    const folder = await mkdtemp(join(tmpdir(), "guest-forms-clock-"));
    // If the test runs as root, Postgres runs as another user.
    await chmod(folder, 0o755);
    const clock = new FakedClock(folder, library);
    await clock.setOffset(0);
    return clock;
  }

  /** Sets the clock to `seconds` ahead of the real one; negative is behind it. */
  async setOffset(seconds: number): Promise<void> {
    const draft = join(this.#folder, "draft");
    await writeFile(draft, `${seconds < 0 ? "" : "+"}${seconds}\n`, { mode: 0o644 });
    // Atomic, because processes read the file at any time.
    await rename(draft, join(this.#folder, "offset"));
  }

  /** Call after all processes that use this clock have exited. */
  async remove(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
    await removeSharedMemory();
  }
}

/** libfaketime leaves shared memory behind for each process that was killed. */
async function removeSharedMemory(): Promise<void> {
  for (const name of await readdir("/dev/shm")) {
    const [, pid] = /^(?:faketime_shm|sem\.faketime_sem)_(\d+)$/.exec(name) ?? [];
    if (pid && !isAlive(Number(pid))) await rm(join("/dev/shm", name), { force: true });
  }
}

/** Debian installs the library in a folder per architecture. */
async function findLibrary(): Promise<string> {
  for (const name of await readdir("/usr/lib")) {
    const path = join("/usr/lib", name, "faketime/libfaketime.so.1");
    const doesExist = await stat(path).then(
      () => true,
      () => false,
    );
    if (doesExist) return path;
  }
  throw new Error("libfaketime is missing: apt-get install faketime.");
}
