const WIDTH = 30;

type Output = Pick<NodeJS.WriteStream, "write" | "isTTY">;

/** Counts what is done. On a terminal, it draws a bar and redraws it in place. */
export class Progress {
  done = 0;
  readonly total: number;
  private readonly unit: string;
  private readonly output: Output;
  private drawn = "";

  constructor(total: number, output: Output = process.stderr, unit = "rows") {
    this.total = total;
    this.unit = unit;
    this.output = output;
  }

  add(count: number): void {
    this.done += count;
    const bar = "#".repeat(Math.floor((WIDTH * this.done) / this.total)).padEnd(WIDTH, ".");
    this.draw(`[${bar}] ${this.done} of ${this.total} ${this.unit}`);
  }

  /** Removes the bar. */
  end(): void {
    if (this.drawn === "") return;
    this.draw("");
    this.output.write("\r");
  }

  private draw(text: string): void {
    if (!this.output.isTTY) return;
    this.output.write(`\r${text.padEnd(this.drawn.length)}`);
    this.drawn = text;
  }
}
