/** Prints a progress line to stderr; stdout is for results. */
export const progress = (line: string): void => void process.stderr.write(`${line}\n`);
