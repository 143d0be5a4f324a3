import { type AddHelpTextContext, Help } from "commander";

/** As commander assumes where the output is no terminal. */
const DEFAULT_WIDTH = 80;

type HelpText = (context: AddHelpTextContext) => string;

/** Text after the options, wrapped to the terminal. Indented lines, such as examples, stay as they are. */
export const notes = (text: string): HelpText => wrappedNotes((width) => wrap(text.trim(), width));

/** The same for text that depends on the columns there are. */
export const wrappedNotes =
  (text: (width: number) => string): HelpText =>
  ({ command, error }) => {
    const { getOutHelpWidth, getErrHelpWidth } = command.configureOutput();
    const width = error ? getErrHelpWidth?.() : getOutHelpWidth?.();
    return `\n${text(width ?? DEFAULT_WIDTH)}`;
  };

const help = new Help();

/** Wraps paragraphs, whose lines are joined first. */
export const wrap = (text: string, width: number): string =>
  text
    .replace(/(?<=\S)\n(?=\S)/g, " ")
    .split("\n")
    .map((line) => (line.startsWith(" ") ? line : help.boxWrap(line, width)))
    .join("\n");
