import { z } from "zod";
import { readSettings, settingsSchema } from "../../server/config.js";
import { wrap, wrappedNotes } from "./help.js";

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
