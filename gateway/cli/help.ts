import { type AddHelpTextContext, Help } from "commander";

/** Commander's default if the output is not a terminal. */
const DEFAULT_WIDTH = 80;

type HelpText = (context: AddHelpTextContext) => string;

/** Text after the options, wrapped to the terminal. Indented lines, such as examples, are not wrapped. */
export const notes = (text: string): HelpText => wrappedNotes((width) => wrap(text.trim(), width));

/** As `notes`, for text that depends on the terminal's width. */
export const wrappedNotes =
  (text: (width: number) => string): HelpText =>
  ({ command, error }) => {
    const { getOutHelpWidth, getErrHelpWidth } = command.configureOutput();
    const width = error ? getErrHelpWidth?.() : getOutHelpWidth?.();
    return `\n${text(width ?? DEFAULT_WIDTH)}`;
  };

const help = new Help();

/** Joins the lines of each paragraph, then wraps it. */
export const wrap = (text: string, width: number): string =>
  text
    .replace(/(?<=\S)\n(?=\S)/g, " ")
    .split("\n")
    .map((line) => (line.startsWith(" ") ? line : help.boxWrap(line, width)))
    .join("\n");
