/** A value from the time when its write was sent; `acknowledgedAt` is infinite until its response has arrived. */
interface Version<Value> {
  value: Value;
  sentAt: number;
  acknowledgedAt: number;
}

/** The values of one thing, written one after the other. Knows what a read may return. */
export class History<Value> {
  readonly #versions: Version<Value>[] = [];
  #writing: Promise<unknown> = Promise.resolve();

  /** Resolves when a write that has been sent has its response. */
  get settled(): Promise<unknown> {
    return this.#writing;
  }

  /** Writes a value, which the response has. Writes must not overlap. */
  write(send: () => Promise<Value>): Promise<Value> {
    const sentAt = performance.now();
    const writing = send().then((value) => {
      this.#versions.push({ value, sentAt, acknowledgedAt: performance.now() });
      return value;
    });
    this.#writing = writing;
    return writing;
  }

  /** Whether its first write was acknowledged before this time. */
  existsAt(time: number): boolean {
    const [first] = this.#versions;
    return first !== undefined && first.acknowledgedAt < time;
  }

  /** What a read that began and ended at these times may return: the last value acknowledged before, and later ones. */
  possible(from: number, to: number): Value[] {
    const last = this.#versions.findLastIndex(({ acknowledgedAt }) => acknowledgedAt < from);
    return this.#versions.filter((version, index) => index >= last && version.sentAt < to).map(({ value }) => value);
  }
}
