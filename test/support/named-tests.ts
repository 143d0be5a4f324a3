import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";

/** The tests that a document names as `FILE`: "TITLE", "TITLE"; the file of a title is the last one named before it. */
export function namedTests(text: string): { file: string; title: string }[] {
  let file = "";
  return [...text.matchAll(/`(?:test\/)?([\w./-]+\.[a-z]+)`|"([^"|\n]+)"/g)].flatMap(([, path, title]) => {
    if (path) file = path;
    return title ? { file, title } : [];
  });
}

/** Whether the file has this title, or a part of it. */
export function isTest({ file, title }: { file: string; title: string }): boolean {
  const path = join(packageRoot(), "test", file);
  return existsSync(path) && readFileSync(path, "utf8").includes(title);
}
