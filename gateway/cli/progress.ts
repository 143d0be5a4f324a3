const WIDTH = 30;

/** Counts what is done. If standard error is a terminal, it draws a bar there and redraws it in place. */
export class Progress {
  done = 0;
  readonly total: number;
  readonly #unit: string;
  #drawn = "";

  constructor(total: number, unit = "rows") {
    this.total = total;
    this.#unit = unit;
  }

  add(count: number): void {
    this.done += count;
    const bar = "#".repeat(Math.floor((WIDTH * this.done) / this.total)).padEnd(WIDTH, ".");
    this.#draw(`[${bar}] ${this.done} of ${this.total} ${this.#unit}`);
  }

  /** Removes the bar. */
  end(): void {
    if (this.#drawn === "") return;
    this.#draw("");
    process.stderr.write("\r");
  }

  #draw(text: string): void {
    if (!process.stderr.isTTY) return;
    process.stderr.write(`\r${text.padEnd(this.#drawn.length)}`);
    this.#drawn = text;
  }
}
