import type { FormV1 } from "./schema.js";

/** A change that takes longer to commit is missed. */
const MARGIN_MS = 60_000;

/** Forms that changed since a mark. Iterate over them to the end, handle them, and then store the `mark`. */
export class FormChanges implements AsyncIterable<FormV1> {
  #mark: string | undefined;
  readonly #read: () => AsyncIterable<FormV1>;

  /** @internal */
  constructor(mark: string | undefined, read: () => AsyncIterable<FormV1>) {
    this.#mark = mark;
    this.#read = read;
  }

  /**
   * What to pass to the next `changesSince`, ISO 8601 in UTC: the latest `updatedAt`, minus the time that the iteration took, minus
   * a minute. Until the iteration has ended, the mark as given: forms come in the order of their creation, so any of the rest may
   * have changed earlier.
   */
  get mark(): string | undefined {
    return this.#mark;
  }

  /** Yields the forms, oldest first. */
  async *[Symbol.asyncIterator](): AsyncGenerator<FormV1, void, undefined> {
    const startedAt = Date.now();
    let latest = "";
    for await (const form of this.#read()) {
      if (form.updatedAt > latest) latest = form.updatedAt;
      yield form;
    }
    // A form may have changed after its page was read: at the earliest as long ago as the read took.
    const next = Date.parse(latest) - MARGIN_MS - Math.max(0, Date.now() - startedAt);
    // Marks never go back. Without a form or a mark, this compares NaN.
    if (latest && !(next <= Date.parse(this.#mark ?? ""))) this.#mark = new Date(next).toISOString();
  }
}
