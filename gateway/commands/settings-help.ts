import { z } from "zod";
import { readSettings, settingsSchema } from "../../server/config.js";
import { wrap, wrappedNotes } from "./help.js";

export interface Setting {
  name: string;
  description: string;
  /** What it may be. */
  may: string;
  /** As one would write it; undefined where there is none. */
  standard: string | undefined;
}

/** Every setting, in the order of the schema. */
export function listSettings(): Setting[] {
  const { properties = {} } = z.toJSONSchema(settingsSchema, { io: "input" });
  const unset = new Map<string, unknown>(Object.entries(readSettings({})));
  return Object.entries(properties as Record<string, z.core.JSONSchema.BaseSchema>).map(
    ([name, setting]) => ({
      name,
      description: String(setting.description),
      may: String(setting.allowed),
      standard: unset.get(name) === undefined ? undefined : String(unset.get(name)),
    }),
  );
}

const INDENT = "      ";

/** Every setting with what it may be and its default, for `--help`. */
export const settingsNotes = wrappedNotes((width) => {
  const indented = (text: string) => wrap(text, width - INDENT.length).replace(/^/gm, INDENT);
  const settings = listSettings().map(({ name, description, may, standard }) => {
    const unlessSet = standard === undefined ? "" : ` (default: ${standard})`;
    return [`  ${name}`, indented(description), indented(may + unlessSet)].join("\n");
  });
  return `Settings, as environment variables:\n${settings.join("\n")}`;
});
