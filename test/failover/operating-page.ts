import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";

const page = readFileSync(join(packageRoot(), "gateway/docs/operating.md"), "utf8");
const section = page.split("\n## Fail over to a standby\n")[1]?.split("\n## ")[0] ?? "";

/** Returns the blocks of code in a language, which must be as many as the tests run. */
function blocksOf(language: string, count: number): string[] {
  const pattern = new RegExp(`^( *)\`\`\`${language}\n(.*?)^ *\`\`\`$`, "gms");
  const blocks = [...section.matchAll(pattern)].map(([, indent = "", code = ""]) =>
    code.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
  );
  if (blocks.length !== count)
    throw new Error(
      `"Fail over to a standby" has ${blocks.length} ${language} blocks. The tests run ${count}.`,
    );
  return blocks;
}

/** All code in "Fail over to a standby", in the order of the page. */
export const [ACCESS_RULES = "", SETTINGS = ""] = blocksOf("text", 2);
export const [ROLES_AND_CHECK = ""] = blocksOf("sql", 1);
export const [
  COPY_PRIMARY = "",
  MAKE_SYNCHRONOUS = "",
  PROMOTE = "",
  DELETE_DATA = "",
  CONTINUE_WITHOUT_STANDBY = "",
] = blocksOf("sh", 5);
