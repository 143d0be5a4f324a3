import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";

/** A test that a document names. */
export interface NamedTest {
  /** Path from the root of the repository. */
  file: string;
  /** A part of its title. */
  title: string;
}

const FILE = /`(?:test\/)?([\w./-]+\.ts)`/.source;
const TITLE = /"([^"|]+)"/.source;
const list = (item: string) => `${item}(?:, ${item})*`;
const GROUP = new RegExp(`^(${list(FILE)}): (${list(TITLE)})$`);

/**
 * Parses the tests that a cell of a table names: groups of files and titles, such as `a.ts`: "one title", "another". Each
 * file has all titles of its group. Throws if there is anything else in the cell.
 */
export const parseNamedTests = (cell: string): NamedTest[] =>
  cell.split(/; (?=`)/).flatMap((group) => {
    if (!GROUP.test(group)) throw new Error(`This names no test, as \`FILE\`: "TITLE": ${group}`);
    const titles = [...group.matchAll(new RegExp(TITLE, "g"))].map(([, title = ""]) => title);
    const files = [...group.matchAll(new RegExp(FILE, "g"))].map(([, path]) => `test/${path}`);
    return files.flatMap((file) => titles.map((title) => ({ file, title })));
  });

const COMMENT_LINES = /^\s*(?:\/\/|\/?\*).*$/gm;
/** The first argument of a call, or the first cell of a row of `test.each`. */
const TITLES = /[([]\s*(?:"((?:[^"\\\n]|\\.)*)"|`([^`]*)`|'([^'\n]*)')/g;

/** Whether the file has a test, or a group of tests, with this in its title. */
export function isTest({ file, title }: NamedTest): boolean {
  const path = join(packageRoot(), file);
  if (!existsSync(path)) return false;
  const code = readFileSync(path, "utf8").replaceAll(COMMENT_LINES, "");
  return [...code.matchAll(TITLES)].some((match) => match.slice(1).some((text) => text?.includes(title)));
}
