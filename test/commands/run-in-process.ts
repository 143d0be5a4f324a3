import { vi } from "vitest";
import { explain } from "../../gateway/commands/failure.js";
import { buildProgram } from "../../gateway/commands/program.js";

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
  try {
    await buildProgram().parseAsync(args, { from: "user" });
    return { stdout, code: 0, message: "" };
  } catch (error) {
    const isUsage = error instanceof Error && error.name === "CommanderError";
    const { exitCode, message } = isUsage ? { exitCode: 2, message: error.message } : explain(error);
    return { stdout, code: exitCode, message };
  } finally {
    write.mockRestore();
    vi.unstubAllEnvs();
  }
}
