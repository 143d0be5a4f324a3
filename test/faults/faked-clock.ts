import { chmod, mkdtemp, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAlive } from "../is-alive.js";

/** A wall clock that can be set while processes run; their monotonic clocks and timers stay real (libfaketime). */
export class FakedClock {
  /** The variables of a process that goes by this clock. */
  readonly env: Record<string, string>;
  readonly #folder: string;

  private constructor(folder: string, library: string) {
    this.#folder = folder;
    this.env = {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: join(folder, "offset"),
      // Read at each call, so that all processes change at the same moment.
      FAKETIME_NO_CACHE: "1",
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
      NO_FAKE_STAT: "1",
    };
  }

  static async create(): Promise<FakedClock> {
    const library = await findLibrary();
    const folder = await mkdtemp(join(tmpdir(), "guest-forms-clock-"));
    // Postgres runs as another user.
    await chmod(folder, 0o755);
    const clock = new FakedClock(folder, library);
    await clock.setOffset(0);
    return clock;
  }

  /** Seconds ahead of the real clock; negative for behind it. */
  async setOffset(seconds: number): Promise<void> {
    const draft = join(this.#folder, "draft");
    await writeFile(draft, `${seconds < 0 ? "" : "+"}${seconds}\n`, { mode: 0o644 });
    // Whole at any moment: it is read all the time.
    await rename(draft, join(this.#folder, "offset"));
  }

  /** To be called when no process goes by this clock any longer. */
  async remove(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
    await removeLeftovers();
  }
}

/** The library leaves an object of its own behind for each process that did not end by itself. */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir("/dev/shm")) {
    const [, pid] = /^(?:faketime_shm|sem\.faketime_sem)_(\d+)$/.exec(name) ?? [];
    if (pid && !isAlive(Number(pid))) await rm(join("/dev/shm", name), { force: true });
  }
}

/** Debian keeps it in a folder of the machine's architecture. */
async function findLibrary(): Promise<string> {
  for (const name of await readdir("/usr/lib")) {
    const path = join("/usr/lib", name, "faketime/libfaketime.so.1");
    const isThere = await stat(path).then(
      () => true,
      () => false,
    );
    if (isThere) return path;
  }
  throw new Error("libfaketime is missing: install Debian's package faketime.");
}
