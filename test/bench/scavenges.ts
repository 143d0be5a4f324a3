import { closeSync, openSync, readSync } from "node:fs";

/** Arguments of Node.js that make V8 write a line for each garbage collection to stdout. */
export const GC_TRACE = ["--trace-gc", "--trace-gc-nvp"];

/** Bytes. */
export interface Scavenged {
  /** Allocated between the scavenges. */
  allocated: number;
  /** Still referenced when they ran, so that they had to be copied. */
  survived: number;
}

/** Returns a function that reads the lines written since its last call. */
export function readTrace(file: string): () => Scavenged {
  let position = 0;
  return () => {
    const chunk = readFrom(file, position);
    // The last line may not be complete.
    const lines = chunk.slice(0, chunk.lastIndexOf("\n") + 1);
    position += lines.length;
    const scavenges = lines.split("\n").filter((line) => / gc=s /.test(line));
    const sumOf = (name: string) =>
      scavenges.reduce((sum, line) => sum + Number(new RegExp(` ${name}=(\\d+)`).exec(line)?.[1]), 0);
    return { allocated: sumOf("allocated"), survived: sumOf("promoted") + sumOf("new_space_survived") };
  };
}

/** The text of a file of ASCII characters from a position on. */
function readFrom(file: string, position: number): string {
  const fd = openSync(file, "r");
  try {
    const parts: Buffer[] = [];
    for (let at = position; ; ) {
      const part = Buffer.alloc(1 << 20);
      const length = readSync(fd, part, 0, part.length, at);
      if (length === 0) return Buffer.concat(parts).toString("latin1");
      parts.push(part.subarray(0, length));
      at += length;
    }
  } finally {
    closeSync(fd);
  }
}
