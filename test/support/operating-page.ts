import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../../prisma/package-root.js";
import { type Run, recordRun } from "./ran-commands.js";

const page = readFileSync(join(packageRoot(), "gateway/docs/operating.md"), "utf8");

const BLOCK = /^( *)```(\w*)\n([\s\S]*?)^ *```$/gm;

/** The blocks of code, without their indentation. */
const blocks = [...page.matchAll(BLOCK)].map(([, indent = "", language = "", text = ""]) => ({
  language,
  text: text.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
}));

const inlineCode = [...page.replaceAll(BLOCK, "").matchAll(/`([^`]+)`/g)].map(([, text = ""]) =>
  text.replaceAll(/\s+/g, " "),
);

/** Returns the block of code in gateway/docs/operating.md that contains this text. Throws unless there is exactly one. */
export const operatingBlock = (text: string): string =>
  findOne(
    blocks.map((block) => block.text),
    text,
  );

/** Returns the inline code in gateway/docs/operating.md that is or contains this text. Throws unless there is exactly one. */
export const operatingInline = (text: string): string => findOne([...new Set(inlineCode)], text);

function findOne(all: string[], text: string): string {
  if (all.includes(text)) return text;
  const [found, ...others] = all.filter((each) => each.includes(text));
  if (!found || others.length > 0)
    throw new Error(`operating.md must have this once, not ${others.length + (found ? 1 : 0)} times: ${text}`);
  return found;
}

/** Runs code of the page. If it succeeds, its commands count as run by a test. */
export async function runFromPage<Result>(source: string, run: (source: string) => Promise<Result>): Promise<Result> {
  const result = await run(source);
  recordRun({ source });
  return result;
}

export interface PageCommand {
  text: string;
  isInline: boolean;
  /** The block or inline code that it is part of. */
  source: string;
}

/** Returns the commands of gateway/docs/operating.md: the lines of shell blocks, and inline code that starts like one. */
export function readCommands(): PageCommand[] {
  const inBlocks = blocks
    .filter(({ language }) => language === "sh")
    .flatMap(({ text: source }) => linesOf(source).map((text) => ({ text, source, isInline: false })));
  const programs = new Set(["gateway/guest-forms.cjs", ...inBlocks.map(({ text }) => text.split(" ")[0])]);
  const inline = [...new Set(inlineCode)]
    .filter((text) => text.includes(" ") && programs.has(text.split(" ")[0]))
    .map((text) => ({ text, source: text, isInline: true }));
  return [...inBlocks, ...inline];
}

/** The commands of a script: no comments, no here-documents, no settings, and continued lines joined. */
const linesOf = (script: string): string[] =>
  script
    .replaceAll(/ *\\\n */g, " ")
    .replaceAll(/ <<'(\w+)'\n[\s\S]*?^\1$/gm, "")
    .split("\n")
    .map((line) => line.replace(/(^|\s)#\s.*$/, "").trim())
    .filter((line) => line !== "" && !/^\w+=\S*$/.test(line));

/** Commands of the page that CI cannot run, by how they start. */
export const NEVER_RUN = [
  {
    start: "apt-get",
    reason: "would change the machine; .ci/suite installs the same packages",
  },
  {
    start: "docker compose",
    reason: "needs a container engine that can download images; test/deploy/containers.test.ts checks compose.yaml",
  },
  {
    start: "systemctl",
    reason: "needs systemd as the first process; test/deploy/systemd.test.ts checks the unit",
  },
];

/**
 * Returns the commands that no test has run: those of a block must have run from the page. Inline code may also name a
 * command that ran in other words: with further arguments, or with values for its PLACEHOLDERS.
 */
export function findNotRun(commands: PageCommand[], runs: Run[]): PageCommand[] {
  const sources = new Set(runs.flatMap((run) => ("source" in run ? run.source : [])));
  const ran = [
    ...commands.filter(({ source }) => sources.has(source)).map(({ text }) => text),
    ...runs.flatMap((run) => ("command" in run ? run.command : [])),
  ].map((text) => text.split(" "));
  const isNamed = (text: string) => {
    const words = text.split(" ");
    const matches = (word: string, index: number, line: string[]) =>
      word === line[index] || (/^[A-Z]+$/.test(word) && /^[^-]/.test(line[index] ?? ""));
    return ran.some((line) => words.every((word, index) => matches(word, index, line)));
  };
  return commands.filter(({ text, source, isInline }) => !sources.has(source) && !(isInline && isNamed(text)));
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
