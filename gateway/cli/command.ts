import { type Command, InvalidArgumentError } from "commander";
import type { Caller } from "../../server/caller.js";
import { printLine } from "../process/terminal.js";
import type { Wording } from "./failure.js";
import { type BoundField, bindFields, type Field, type Fields } from "./fields.js";
import { notes } from "./help.js";
import { formatRecord, print, withJson } from "./print.js";
import type { Finders } from "./services.js";

export const DATABASE_HELP = `\
Uses the database in DATABASE_URL with APP_SECRETS. Unless NODE_ENV is "production", they default to those of a
\`guest-forms dev\` running in the current folder.`;

/** What a command does apart from its input. */
export interface Behavior<Input, Result> extends Wording {
  description: string;
  alias?: string;
  /** Text after the options, behind the help of arguments and before that of options. */
  help?: string;
  examples?: string[];
  /** Message if no option is given. */
  noOption?: string;
  /** Says what is wrong if what was given does not fit together. */
  check?(texts: { [Name in keyof Input]?: string }, isJson: boolean): string | false;
  /** Formats the result as text, by default as a record. Undefined if the command has printed it. */
  text?(result: NoInfer<Result>, input: NoInfer<Input>): string | undefined;
  /** Why the result is incomplete; undefined if it is not. Printed after the result, with exit code 1. */
  problem?(result: NoInfer<Result>, input: NoInfer<Input>): string | undefined;
}

/** Behavior through the core. */
export interface CoreBehavior<Input, Result> extends Behavior<Input, Result> {
  call(core: Caller, input: Input): Promise<Result>;
}

/** Arguments and options, by the name of their value in the input, in the order of the help. */
interface WithInput<Input> {
  input?: Fields<Input>;
}

/** Adds a command to its noun. */
export type Entry = (parent: Command, name: string) => Command;

/** Returns what adds a noun with its commands. */
export const noun =
  (name: string, description: string, entries: Record<string, Entry>) =>
  (program: Command): void => {
    const parent = program.command(name).description(description);
    for (const [command, add] of Object.entries(entries)) add(parent, command);
  };

/** A command that reads or changes data through the core. */
export const command = <Input extends object, Result extends object>({
  input,
  ...behavior
}: CoreBehavior<Input, Result> & WithInput<Input>): Entry => coreCommand(behavior, input);

type AnyFields = Record<string, Field<unknown>>;

export const coreCommand =
  <Input, Result extends object>(behavior: CoreBehavior<Input, Result>, fields?: AnyFields): Entry =>
  (parent, name) => {
    const added = withJson(parent.command(name)).addHelpText("after", notes(DATABASE_HELP));
    return addBehavior(added, behavior, fields, async (bound) => {
      const { callCore } = await import("./services.js");
      return callCore(
        async (core, finders) => {
          const input: Input = await readInput(bound, finders);
          return { input, result: await behavior.call(core, input) };
        },
        wordingOf(behavior, bound),
      );
    });
  };

/** A command that needs no database. */
export const localCommand =
  <Input extends object, Result extends object>({
    input: fields,
    run,
    ...behavior
  }: Behavior<Input, Result> & WithInput<Input> & { run(input: Input): Promise<Result> }): Entry =>
  (parent, name) =>
    addBehavior(withJson(parent.command(name)), behavior, fields, async (bound) => {
      const input: Input = await readInput(bound);
      return { input, result: await run(input) };
    });

function addBehavior<Input, Result extends object>(
  command: Command,
  { noOption, check, text = formatRecord, problem, ...texts }: Behavior<Input, Result>,
  fields: AnyFields = {},
  run: (bound: BoundField[]) => Promise<{ input: Input; result: Result }>,
): Command {
  const bound = bindFields(command, fields);
  describe(command, texts, bound);
  return command.action(async () => {
    if (noOption && !bound.some(({ isOption, given }) => isOption && given())) throw new InvalidArgumentError(noOption);
    const issue = check?.(textsOf(bound), command.opts().json === true);
    if (issue) throw new InvalidArgumentError(issue);
    const { input, result } = await run(bound);
    const printed = text(result, input);
    if (printed !== undefined) print(command, result, printed);
    const incomplete = problem?.(result, input);
    if (incomplete === undefined) return;
    printLine(process.stderr, `error: ${incomplete}`);
    process.exitCode = 1;
  });
}

function describe(
  command: Command,
  {
    description,
    alias,
    help,
    examples = [],
  }: Pick<Behavior<never, never>, "description" | "alias" | "help" | "examples">,
  bound: BoundField[],
): void {
  command.description(description);
  if (alias) command.alias(alias);
  const helpOf = (fields: BoundField[]) => fields.map((field) => field.help);
  const [options, args] = [bound.filter(({ isOption }) => isOption), bound.filter(({ isOption }) => !isOption)];
  const about = [...helpOf(args), help?.trim(), ...helpOf(options)].filter(Boolean).join("\n");
  const heading = examples.length > 1 ? "Examples:" : "Example:";
  const shown = examples.length > 0 && [heading, ...examples.map((example) => `  ${example}`)].join("\n");
  const text = [about, shown].filter(Boolean).join("\n\n");
  if (text) command.addHelpText("after", notes(text));
}

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
