import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../../prisma/package-root.js";

/** A block of code in gateway/docs/operating.md. */
export interface CodeBlock {
  /** The heading above it. */
  section: string;
  language: string;
  text: string;
}

/** Returns the blocks of code in a Markdown text, without their indentation. */
export function codeBlocksOf(markdown: string): CodeBlock[] {
  const found = markdown.matchAll(/^#+ (.+)$|^( *)```(\w*)\n([\s\S]*?)^ *```$/gm);
  let section = "";
  return [...found].flatMap(([, heading, indent = "", language = "", text = ""]) => {
    if (heading !== undefined) section = heading;
    else return [{ section, language, text: text.replaceAll(new RegExp(`^${indent}`, "gm"), "") }];
    return [];
  });
}

export const readOperatingPage = () => readFileSync(join(packageRoot(), "gateway/docs/operating.md"), "utf8");

/** Returns the block of gateway/docs/operating.md that contains this text. Throws unless there is exactly one. */
export function operatingBlock(text: string): string {
  const [block, ...others] = codeBlocksOf(readOperatingPage()).filter((each) => each.text.includes(text));
  if (!block || others.length > 0) throw new Error(`operating.md must have one block of code with: ${text}`);
  return block.text;
}

/** Returns the command in gateway/docs/operating.md that is written as inline code and contains this text. */
export function operatingInline(text: string): string {
  const prose = readOperatingPage().replaceAll(/^ *```[\s\S]*?^ *```$/gm, "");
  const [command, ...others] = [...prose.matchAll(/`([^`]+)`/g)]
    .map(([, code = ""]) => code)
    .filter((code) => code.includes(text));
  if (!command || others.length > 0)
    throw new Error(`operating.md must have one inline command with: ${text}`);
  return command;
}

export interface ScriptOptions {
  /** Environment variables, besides PATH. */
  env?: Record<string, string>;
  cwd?: string;
  /** Folders to search for commands before PATH. */
  binFolders?: string[];
  /** What to replace in the script, such as paths that only an operator's machine has. */
  replace?: Record<string, string>;
  /** Put before the shell, such as a command that changes the user. */
  commandPrefix?: string[];
}

/** Runs a script as an operator would type it. Rejects if a command fails. */
export async function runScript(
  script: string,
  options: ScriptOptions = {},
): Promise<{ stdout: string; stderr: string }> {
  const { env = {}, cwd, binFolders = [], replace = {}, commandPrefix = [] } = options;
  let text = script;
  for (const [from, to] of Object.entries(replace)) text = text.replaceAll(from, to);
  const PATH = [...binFolders, process.env.PATH].join(":");
  const [command = "sh", ...args] = [...commandPrefix, "sh", "-euc", text];
  return promisify(execFile)(command, args, { env: { PATH, ...env }, ...(cwd && { cwd }) });
}
