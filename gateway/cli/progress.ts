const WIDTH = 30;

/** Counts what is done. If standard error is a terminal, it draws the count there, with a bar if the total is known, in place. */
export class Progress {
  done = 0;
  readonly total: number | null;
  readonly #unit: string;
  #drawn = "";

  constructor(total: number | null, unit = "rows") {
    this.total = total;
    this.#unit = unit;
  }

  add(count: number): void {
    this.done += count;
    this.#draw(this.total === null ? `${this.done} ${this.#unit}` : this.#bar(this.total));
  }

  /** Removes the bar. */
  end(): void {
    if (this.#drawn === "") return;
    this.#draw("");
    process.stderr.write("\r");
  }

  #bar(total: number): string {
    const bar = "#".repeat(Math.floor((WIDTH * this.done) / total)).padEnd(WIDTH, ".");
    return `[${bar}] ${this.done} of ${total} ${this.#unit}`;
  }

  #draw(text: string): void {
    if (!process.stderr.isTTY) return;
    process.stderr.write(`\r${text.padEnd(this.#drawn.length)}`);
    this.#drawn = text;
  }
}
