const MAX_WIDTH = 110;

/** Wraps a text into lines that each begin with `prefix`. */
export function wrap(text: string, prefix: string): string[] {
  const lines = [prefix];
  for (const word of text.split(" ")) {
    if (`${lines.at(-1)} ${word}`.length > MAX_WIDTH) lines.push(prefix);
    lines[lines.length - 1] += ` ${word}`;
  }
  return lines;
}
