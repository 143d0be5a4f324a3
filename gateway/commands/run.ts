import type { Command } from "commander";
import type { Caller } from "../../server/caller.js";
import type { Services } from "../../server/context.js";
import type { Wording } from "./failure.js";
import type { FindUser } from "./find-user.js";
import { notes } from "./help.js";
import { print, withJson } from "./print.js";

export const DATABASE_HELP = `\
Uses the database in DATABASE_URL. If that is unset and NODE_ENV is not "production", it uses the database of a
\`guest-forms dev\` running in the current folder.`;

/** Adds a command that reads or changes data through the core. */
export const addDataCommand = (parent: Command, usage: string): Command =>
  withJson(parent.command(usage)).addHelpText("after", notes(DATABASE_HELP));

/** One call to the core. */
export interface CoreCall<Result> extends Wording {
  call(core: Caller, findUser: FindUser): Promise<Result>;
  /** Formats the result as text. Undefined if the call has printed it. */
  text(result: Result): string | undefined;
  /** Why the result is incomplete; undefined if it is not. Printed after the result, with exit code 1. */
  problem?(result: Result): string | undefined;
}

/** Calls the core as the operator and prints the result. */
export async function callCore<Result>(command: Command, coreCall: CoreCall<Result>): Promise<void> {
  const { readSettingsWithDatabaseOrDev } = await import("./environment.js");
  const { withServices } = await import("./services.js");
  const { createCaller } = await import("../../server/caller.js");
  const { findUserBy } = await import("./find-user.js");
  const call = (services: Services) => {
    const core = createCaller(services, { kind: "operator" });
    return coreCall.call(core, findUserBy(core));
  };
  const result = await withServices(readSettingsWithDatabaseOrDev(), call, coreCall);
  const text = coreCall.text(result);
  if (text !== undefined) print(command, result, text);
  const problem = coreCall.problem?.(result);
  if (problem === undefined) return;
  process.stderr.write(`error: ${problem}\n`);
  process.exitCode = 1;
}
