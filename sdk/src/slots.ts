import type { Deadline } from "./deadline.js";

/** Limits how many calls run at the same time. The others wait for their turn, in order. */
export class Slots {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /** Waits for a slot. Throws if the deadline passes or the caller aborts meanwhile. */
  async acquire(deadline: Deadline): Promise<void> {
    if (this.#free > 0) {
      this.#free--;
      return;
    }
    let start = () => {};
    const turn = new Promise<void>((resolve) => {
      start = resolve;
    });
    this.#waiting.add(start);
    try {
      await deadline.race(turn);
    } catch (error) {
      // Its turn may have come at the same moment.
      if (!this.#waiting.delete(start)) this.release();
      throw error;
    }
  }

  /** Gives the slot to the call that waits longest. */
  release(): void {
    const [next] = this.#waiting;
    if (!next) this.#free++;
    else {
      this.#waiting.delete(next);
      next();
    }
  }
}
