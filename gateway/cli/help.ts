import { type AddHelpTextContext, Help } from "commander";
import { z } from "zod";
import { readSettings, settingsSchema } from "../../server/config.js";

/** Commander's default if the output is not a terminal. */
const DEFAULT_WIDTH = 80;

type HelpText = (context: AddHelpTextContext) => string;

/** Text after the options, wrapped to the terminal. Indented lines, such as examples, are not wrapped. */
export const notes = (text: string): HelpText => wrappedNotes((width) => wrap(text.trim(), width));

/** As `notes`, for text that depends on the terminal's width. */
const wrappedNotes =
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

/** Every setting, in the order of the schema. */
export function listSettings() {
  const { properties = {} } = z.toJSONSchema(settingsSchema, { io: "input" });
  const defaults = new Map<string, unknown>(Object.entries(readSettings({})));
  return Object.entries(properties as Record<string, z.core.JSONSchema.BaseSchema>).map(([name, setting]) => ({
    name,
    description: String(setting.description),
    allowed: String(setting.allowed),
    defaultValue: defaults.get(name) === undefined ? undefined : String(defaults.get(name)),
  }));
}

const INDENT = "      ";

/** Every setting with its allowed values and default, for `--help`. */
export const settingsNotes = wrappedNotes((width) => {
  const indented = (text: string) => wrap(text, width - INDENT.length).replace(/^/gm, INDENT);
  const settings = listSettings().map(({ name, description, allowed, defaultValue }) => {
    const suffix = defaultValue === undefined ? "" : ` (default: ${defaultValue})`;
    return [`  ${name}`, indented(description), indented(allowed + suffix)].join("\n");
  });
  return `Settings (environment variables):\n${settings.join("\n")}`;
});
