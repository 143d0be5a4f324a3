import { Argument, type Command, Option } from "commander";
import { type Given, parsed, type Reader, TEXT, USER_OPTION } from "./readers.js";

/** An argument or option of a command, which gives its input a value. */
export interface Field<Value> {
  /** An argument, such as `<form>` or `[id]`, or an option, such as `--label <text>`. */
  flags: string;
  description?: string;
  reader: Reader<Value>;
  isMandatory?: true;
  default?: string;
  /** The option that cannot be given with it. */
  conflicts?: string;
  /** Message for RESOURCE_NOT_FOUND if this was given. */
  notFound?: string;
  /** Text about it after the options. */
  help?: string;
  /** Whether its reference is looked up before those of other fields. */
  isFoundFirst?: boolean;
}

/** The fields of an input. */
export type Fields<Input> = { [Name in keyof Input]: Field<Input[Name]> };

export const argument = <Value>(flags: `<${string}>`, reader: Reader<Value>): Field<Value> => ({ flags, reader });

export const optionalArgument = <Value>(flags: `[${string}]`, reader: Reader<Value>): Field<Value | undefined> => ({
  flags,
  reader,
});

export const option = <Value>(flags: string, description: string, reader: Reader<Value>): Field<Value | undefined> => ({
  flags,
  description,
  reader,
});

/** An option that must be given. */
export const required = <Value>(flags: string, description: string, reader: Reader<Value>): Field<Value> => ({
  flags,
  description: `${description} (required)`,
  reader,
  isMandatory: true,
});

/** `text` is read if the option is not given. */
export const optionWithDefault = <Value>(
  flags: string,
  description: string,
  reader: Reader<Value>,
  text: string,
): Field<Value> => ({ flags, description, reader, default: text });

/** An option without a value of its own. */
export const flag = <const Value>(flags: string, description: string, value: Value): Field<Value | undefined> => ({
  flags,
  description,
  reader: parsed(() => value),
});

/** How options name a user. */
export const USER_REFERENCE = "id, external id or email address";

/** An option that takes only what is of a user, or of the listings in the user's scope. */
export const userFilter = (what: string) =>
  option("--user <user>", `only ${what}; an ${USER_REFERENCE} (default: all)`, USER_OPTION);

/** An option of lists that can be searched. */
export const searchOption = (fields: string) =>
  option("--search <text>", `only those whose ${fields} contains this text, ignoring case`, TEXT);

/** A field that a command has. */
export interface BoundField extends Pick<Field<unknown>, "help" | "notFound" | "isFoundFirst"> {
  name: string;
  isOption: boolean;
  /** How errors name it. */
  label: string;
  /** What was given, if anything. */
  given(): Given<unknown> | undefined;
}

export const bindFields = (command: Command, fields: Record<string, Field<unknown>>): BoundField[] =>
  Object.entries(fields).map(([name, field]) => ({
    name,
    ...field,
    ...(field.flags.startsWith("-") ? addOption(command, field) : addArgument(command, field)),
  }));

function addArgument(command: Command, { flags, reader }: Field<unknown>) {
  const index = command.registeredArguments.length;
  const added = new Argument(flags).argParser<Given<unknown>>((text) => reader.read(text));
  command.addArgument(added);
  return { isOption: false, label: added.name().toUpperCase(), given: () => command.processedArgs[index] };
}

function addOption(command: Command, { flags, description, reader, ...field }: Field<unknown>) {
  const added = new Option(flags, description);
  if (reader.choices) added.choices(reader.choices);
  added.argParser<Given<unknown>>((text, before) => reader.read(text, before));
  if (added.isBoolean()) added.preset("");
  if (field.isMandatory) added.makeOptionMandatory();
  if (field.conflicts) added.conflicts(field.conflicts);
  if (field.default !== undefined) added.default(reader.read(field.default), field.default);
  command.addOption(added);
  // Commander sets a --no- option that is not given to true.
  const given = () => {
    const value = command.getOptionValue(added.attributeName());
    return value === true ? undefined : value;
  };
  return { isOption: true, label: added.long ?? flags, given };
}
