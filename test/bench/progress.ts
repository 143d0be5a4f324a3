/** One line for the person who waits; standard output is kept for the results. */
export const progress = (line: string): void => void process.stderr.write(`${line}\n`);
