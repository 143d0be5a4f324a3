import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";

const root = packageRoot();
const read = (path: string) => readFileSync(join(root, path), "utf8");

const SKIPPED = new Set([".git", ".data", "node_modules", "dist", "coverage", "prisma/client"]);

/** Paths of all source files in a folder, relative to the root. */
function filesIn(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = posix.join(folder, entry.name);
    if (SKIPPED.has(entry.name) || SKIPPED.has(path)) return [];
    if (entry.isDirectory()) return filesIn(path);
    return entry.isFile() ? [path] : [];
  });
}

const files = filesIn("");
const documents = files.filter((path) => path.endsWith(".md"));

/** The text of a Markdown file without its blocks of code. */
const prose = (path: string) => read(path).replace(/^ *```[\s\S]*?^ *```$/gm, "");

/** The anchor that GitHub makes from a heading. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, "")
    .replaceAll(" ", "-");

function anchorsOf(path: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of prose(path).matchAll(/^#{1,6} (.+)$/gm)) {
    const anchor = anchorOf(heading);
    let name = anchor;
    for (let n = 1; anchors.has(name); n++) name = `${anchor}-${n}`;
    anchors.add(name);
  }
  return anchors;
}

/** Whether a path from the root is a file or folder and, with an anchor, has this section. */
function targetExists(path: string, anchor: string | undefined): boolean {
  if (!existsSync(join(root, path))) return false;
  return anchor === undefined || !path.endsWith(".md") || anchorsOf(path).has(anchor);
}

interface Link {
  source: string;
  /** Relative to the root. */
  path: string;
  anchor: string | undefined;
}

/** The relative links of a document. docs.test.ts tests links to paths of the service, such as /docs. */
const linksOf = (source: string): Link[] =>
  [...prose(source).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = ""]) => target)
    .filter((target) => !/^(https?:|mailto:|\/)/.test(target))
    .map((target) => {
      const [path = "", anchor] = target.split("#");
      return { source, path: path === "" ? source : posix.join(dirname(source), path), anchor };
    });

const links = documents.flatMap(linksOf);

describe("documents", () => {
  test("the target of every relative link in Markdown exists", () => {
    expect(links.length).toBeGreaterThan(60);
    const broken = links.filter(({ path, anchor }) => !targetExists(path, anchor));
    expect(broken).toEqual([]);
  });

  test("every file and folder of the repository that Markdown names exists", () => {
    const named = documents.flatMap((source) =>
      [...prose(source).matchAll(/`((?:\.ci|deploy|gateway|prisma|sdk|server|test)\/[\w./-]*)`/g)].map(
        ([, path = ""]) => ({ source, path }),
      ),
    );
    expect(named.length).toBeGreaterThan(100);
    const isMissing = ({ source, path }: (typeof named)[number]) =>
      !existsSync(join(root, path)) && !existsSync(join(root, dirname(source), path));
    expect(named.filter(isMissing)).toEqual([]);
  });

  test("a release has every document that its documents link to, except those for developers", () => {
    const { files: released } = JSON.parse(read("package.json")) as { files: string[] };
    const isReleased = (path: string) =>
      [...released, "README.md", "LICENSE"].some(
        (name) => path.startsWith(`${name}/`) || new RegExp(`^${name.replaceAll("*", "[^/]*")}$`).test(path),
      );
    const forDevelopers = [
      "CONTRIBUTING.md",
      "server/README.md",
      "sdk/README.md",
      "sdk/CHANGELOG.md",
      "test/bench/README.md",
    ];
    const missing = links.filter(
      ({ source, path }) => isReleased(source) && !isReleased(path) && !forDevelopers.includes(path),
    );
    expect(missing).toEqual([]);
  });
});
