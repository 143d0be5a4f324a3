import { CommanderError } from "commander";
import { vi } from "vitest";
import { explain } from "../../gateway/commands/failure.js";
import { buildProgram } from "../../gateway/commands/program.js";
import { describeUsage } from "../../gateway/commands/usage.js";
import { recordRun } from "./ran-commands.js";

export interface Outcome {
  stdout: string;
  code: number;
  /** The error message for people. */
  message: string;
}

/** Runs a command in this process, which is much faster than a new one. Calls must not overlap. */
export async function runInProcess(args: string[], env: Record<string, string>): Promise<Outcome> {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  let stdout = "";
  const write = vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    stdout += text;
    return true;
  });
  const program = buildProgram();
  try {
    await program.parseAsync(args, { from: "user" });
    recordRun({ command: ["guest-forms", ...args].join(" ") });
    return { stdout, code: 0, message: "" };
  } catch (error) {
    if (error instanceof CommanderError) {
      const code = error.exitCode === 0 ? 0 : 2;
      return { stdout, code, message: describeUsage(program, args, error) ?? "" };
    }
    const { exitCode, message } = explain(error);
    return { stdout, code: exitCode, message };
  } finally {
    write.mockRestore();
    vi.unstubAllEnvs();
  }
}
