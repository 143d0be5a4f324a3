import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";

export interface Guide {
  /** Address of the page: `/docs/first-request`. */
  path: string;
  title: string;
  /** The first paragraph: one sentence. */
  summary: string;
  source: string;
}

/** The guides, in the order of their file names, and the contract. */
export function readGuides(): Guide[] {
  const folder = join(packageRoot(), "gateway", "docs");
  const names = readdirSync(join(folder, "guides")).filter((name) => name.endsWith(".md"));
  return [...names.sort().map((name) => `guides/${name}`), "contract.md"].map((file) => {
    const source = readFileSync(join(folder, file), "utf8");
    const [heading = "", summary = ""] = source.split(/\n{2,}/);
    return {
      path: `/docs/${basename(file, ".md").replace(/^\d+-/, "")}`,
      title: heading.replace("# ", ""),
      summary: summary.replaceAll("\n", " "),
      source,
    };
  });
}

/** Turns links between the Markdown files into links between pages, or with the suffix `.md` between their sources. */
export const linkPages = (source: string, suffix: "" | ".md"): string =>
  source.replace(/\]\((?:\.\.\/)?(?:\d+-)?([\w-]+)\.md/g, `](/docs/$1${suffix}`);
