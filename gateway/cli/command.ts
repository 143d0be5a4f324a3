import { type Command, InvalidArgumentError } from "commander";
import type { Caller } from "../../server/caller.js";
import { printLine } from "../runtime/terminal.js";
import { addConsentOptions, askConsent, type Consequences } from "./consent.js";
import type { Wording } from "./failure.js";
import { type BoundField, bindFields, type Field, type Fields } from "./fields.js";
import { notes, settingsNotes } from "./help.js";
import { formatRecord, type Print, print } from "./print.js";
import type { Finders } from "./services.js";

export const DATABASE_HELP = `\
Uses the database in DATABASE_URL with APP_SECRETS. Unless NODE_ENV is "production", they default to those of a
\`guest-forms dev\` running in the current folder.`;

interface Texts {
  description: string;
  alias?: string;
  /** Text after the options, behind the help of arguments and before that of options. */
  help?: string;
  examples?: string[];
  /** Whether the help says which database is used. */
  usesDatabase?: true;
  /** Whether the help lists all settings. */
  hasSettings?: true;
}

/** What a command does apart from its input. */
interface Behavior<Input, Result> extends Texts, Wording {
  /** Message if no option is given. */
  noOption?: string;
  /** Says what is wrong if what was given does not fit together, or throws an InvalidArgumentError. */
  check?(texts: { [Name in keyof Input]?: string | undefined }, isJson: boolean): string | false;
  /** Formats the result as text, by default as a record. Undefined if the command has printed it. */
  text?(result: NoInfer<Result>, input: NoInfer<Input>): string | undefined;
  /** Why the result is incomplete; undefined if it is not. Printed after the result, with exit code 1; empty if the result says it. */
  problem?(result: NoInfer<Result>, input: NoInfer<Input>): string | undefined;
}

/** Behavior through the core. */
export interface CoreBehavior<Input, Result> extends Behavior<Input, Result> {
  call(core: Caller, input: Input): Promise<Result>;
  /** What the call will do. Throws the error of a call that would be rejected. With it, the command has --dry-run and --yes. */
  consequences?(core: Caller, input: NoInfer<Input>): Promise<Consequences<NoInfer<Input>>>;
}

/** Arguments and options, by the name of their value in the input, in the order of the help. */
interface WithInput<Input> {
  input?: Fields<Input>;
}

type AnyFields = Record<string, Field<unknown>>;

/** Adds a command by this name. */
export type Entry = (parent: Command, name: string) => Command;

export const noun =
  (description: string, entries: Record<string, Entry>): Entry =>
  (program, name) => {
    const parent = program.command(name).description(description);
    for (const [command, add] of Object.entries(entries)) add(parent, command);
    return parent;
  };

/** A command that reads or changes data through the core. */
export const command = <Input extends object, Result extends object>({
  input,
  ...behavior
}: CoreBehavior<Input, Result> & WithInput<Input>): Entry => coreCommand(behavior, input);

export const coreCommand =
  <Input, Result extends object>(behavior: CoreBehavior<Input, Result>, fields?: AnyFields): Entry =>
  (parent, name) => {
    const { call, consequences } = behavior;
    const added = addCommand(parent, name, { ...behavior, usesDatabase: true }, fields);
    if (consequences) addConsentOptions(added.command);
    return addAction(added, behavior, async () => {
      const { callCore } = await import("./services.js");
      return callCore(
        async (core, finders) => {
          const given: Input = await readInput(added.bound, finders);
          const input = consequences
            ? await askConsent(added.command, given, (each) => consequences(core, each))
            : given;
          return input && { input, result: await call(core, input) };
        },
        wordingOf(behavior, added.bound),
      );
    });
  };

/** A command that calls the core only if it has to. */
export const localCommand =
  <Input extends object, Result extends object>({
    input: fields,
    run,
    ...behavior
  }: Behavior<Input, Result> & WithInput<Input> & { run(input: Input): Promise<Result> }): Entry =>
  (parent, name) => {
    const added = addCommand(parent, name, behavior, fields);
    return addAction(added, behavior, async () => {
      const input: Input = await readInput(added.bound);
      return { input, result: await run(input) };
    });
  };

/** A command that runs until it is stopped. */
export const processCommand =
  <Input extends object>({
    input: fields,
    run,
    ...texts
  }: Texts & WithInput<Input> & { run(input: Input, print: Print): Promise<void> }): Entry =>
  (parent, name) => {
    const { command, bound } = addCommand(parent, name, texts, fields);
    return command.action(async () => run(await readInput(bound), (value, text) => print(command, value, text)));
  };

interface Added {
  command: Command;
  bound: BoundField[];
}

function addCommand(parent: Command, name: string, texts: Texts, fields: AnyFields = {}): Added {
  const command = parent.command(name).description(texts.description);
  command.option("--json", "print only one JSON value to standard output");
  const bound = bindFields(command, fields);
  if (texts.alias) command.alias(texts.alias);
  const help = helpOf(texts, bound);
  if (help) command.addHelpText("after", notes(help));
  if (texts.hasSettings) command.addHelpText("after", settingsNotes);
  return { command, bound };
}

function helpOf({ usesDatabase, help, examples = [] }: Texts, bound: BoundField[]): string {
  const ofFields = (areOptions: boolean) =>
    bound.filter(({ isOption }) => isOption === areOptions).map((field) => field.help);
  const about = [...ofFields(false), help?.trim(), ...ofFields(true)].filter(Boolean).join("\n");
  const heading = examples.length > 1 ? "Examples:" : "Example:";
  const shown = [heading, ...examples.map((example) => `  ${example}`)].join("\n");
  return [usesDatabase && DATABASE_HELP, about, examples.length > 0 && shown].filter(Boolean).join("\n\n");
}

const addAction = <Input, Result extends object>(
  { command, bound }: Added,
  { noOption, check, text = formatRecord, problem }: Behavior<Input, Result>,
  run: () => Promise<{ input: Input; result: Result } | undefined>,
): Command =>
  command.action(async () => {
    if (noOption && !bound.some(({ isOption, given }) => isOption && given())) throw new InvalidArgumentError(noOption);
    const issue = check?.(textsOf(bound), command.opts().json === true);
    if (issue) throw new InvalidArgumentError(issue);
    const done = await run();
    if (!done) return;
    const { input, result } = done;
    const printed = text(result, input);
    if (printed !== undefined) print(command, result, printed);
    const incomplete = problem?.(result, input);
    if (incomplete === undefined) return;
    if (incomplete) printLine(process.stderr, `error: ${incomplete}`);
    process.exitCode = 1;
  });

const textsOf = <Texts>(bound: BoundField[]): Texts => toObject(bound.map(({ name, given }) => [name, given()?.text]));

async function readInput<Input>(bound: BoundField[], finders?: Finders): Promise<Input> {
  const entries: unknown[][] = [];
  const ordered = bound.toSorted((a, b) => Number(b.isFoundFirst ?? false) - Number(a.isFoundFirst ?? false));
  for (const { name, label, given } of ordered) entries.push([name, await given()?.find(finders, label)]);
  return toObject(entries);
}

/** `Fields` relates the types of values to names, which commander does not know. */
const toObject = <Values>(entries: unknown[][]): Values => Object.fromEntries(entries);

/** Errors name what was given, also if a finder calls it as the argument is called. */
function wordingOf({ names, notFound }: Wording, bound: BoundField[]): Wording {
  const labels = bound.flatMap(({ name, label, isOption }) => [
    [name, label],
    ...(isOption ? [] : [[label.toLowerCase(), label]]),
  ]);
  const given = bound.find((each) => each.given() && each.notFound);
  return { names: { ...Object.fromEntries(labels), ...names }, notFound: notFound ?? given?.notFound };
}
