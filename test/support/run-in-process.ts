import { CommanderError } from "commander";
import { expect, vi } from "vitest";
import { explain } from "../../gateway/cli/failure.js";
import { buildProgram, describeUsage } from "../../gateway/commands/program.js";
import { TEST_SECRET } from "./factories.js";
import { recordRun } from "./ran-commands.js";

export interface Outcome {
  stdout: string;
  code: number;
  /** The error message for people. */
  message: string;
}

/** Runs a command in this process, which is much faster than a new one, by default with TEST_SECRET. Calls must not overlap. */
export async function runInProcess(args: string[], env: Record<string, string>): Promise<Outcome> {
  for (const [name, value] of Object.entries({ APP_SECRETS: TEST_SECRET, ...env })) vi.stubEnv(name, value);
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

/** Runs commands with these settings, in this process. */
export function commandsWith(env: Record<string, string>) {
  /** Runs a command that must succeed. Returns what it prints. */
  async function text(...args: string[]): Promise<string> {
    const { stdout, code, message } = await runInProcess(args, env);
    expect({ code, message }).toEqual({ code: 0, message: "" });
    return stdout;
  }
  /** The same with --json, which must print one line. */
  async function json(...args: string[]) {
    const stdout = await text(...args, "--json");
    expect(stdout.trimEnd()).not.toContain("\n");
    return JSON.parse(stdout);
  }
  /** Runs a command that must fail and print nothing but one line. Returns its exit code and this line. */
  async function failure(...args: string[]): Promise<[number, string]> {
    const { stdout, code, message } = await runInProcess(args, env);
    expect(stdout).toBe("");
    expect(message).not.toMatch(/\n|\bat .*:\d+:\d+|node:internal/);
    return [code, message];
  }
  return { text, json, failure };
}
