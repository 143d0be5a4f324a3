import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";

export interface Guide {
  /** Address of the page: `/docs/first-request`. */
  path: string;
  title: string;
  /** The first paragraph: one sentence. */
  summary: string;
  source: string;
}

/** The guides, in the order of their file names. */
export function readGuides(): Guide[] {
  const folder = join(packageRoot(), "gateway", "docs", "guides");
  return readdirSync(folder)
    .filter((name) => name.endsWith(".md"))
    .sort()
    .map((name) => {
      const source = readFileSync(join(folder, name), "utf8");
      const [heading = "", summary = ""] = source.split(/\n{2,}/);
      return {
        path: `/docs/${name.replace(/^\d+-|\.md$/g, "")}`,
        title: heading.replace("# ", ""),
        summary: summary.replaceAll("\n", " "),
        source,
      };
    });
}

/** Turns links to files of guides into links to pages, or with the suffix `.md` to their Markdown. */
export const linkPages = (source: string, suffix: "" | ".md"): string =>
  source.replace(/\]\(\d+-([\w-]+)\.md/g, `](/docs/$1${suffix}`);
