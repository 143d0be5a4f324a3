import { Command, type ParseOptionsResult } from "commander";

/** A public id that begins with `-`, which looks like an option. */
const DASHED_ID = /^-[\w-]{20}$/;

/** A command whose arguments may be public ids that begin with `-`, without `--` before them. */
export class CommandWithIds extends Command {
  override createCommand(name?: string): Command {
    return new CommandWithIds(name);
  }

  override parseOptions(args: string[]): ParseOptionsResult {
    const { operands, unknown } = super.parseOptions(args);
    const canTakeId = () => operands.length < this.registeredArguments.length;
    // From the first unknown option on, commander returns arguments as unknown too.
    while (unknown[0] && canTakeId() && DASHED_ID.test(unknown[0])) {
      operands.push(unknown.shift() ?? "");
      while (unknown[0] && !unknown[0].startsWith("-")) operands.push(unknown.shift() ?? "");
    }
    return { operands, unknown };
  }
}
