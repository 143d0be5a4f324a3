import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { AxeResults, RunOptions } from "axe-core";
import { chromium, type Page } from "playwright-core";
import { packageRoot } from "../../prisma/package-root.js";
import { afterFile } from "./after-file.js";

const CHROMIUM =
  ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync) ?? "chromium";

/** Starts Chromium, which is closed after the test file. */
export async function openChromium() {
  const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-sync"];
  const browser = await chromium.launch({ executablePath: CHROMIUM, args });
  afterFile(() => browser.close());
  return browser;
}

/** Checks how a page looks. */
export const PAGE_CHECKS = join(packageRoot(), "test/browser/page-checks.js");

const AXE = readFileSync(join(packageRoot(), "node_modules/axe-core/axe.min.js"), "utf8");

/** What axe (https://github.com/dequelabs/axe-core) finds, with the elements. */
export async function findBarriers(page: Page, options: RunOptions = {}): Promise<string[]> {
  const { violations } = await page.evaluate<AxeResults>(`${AXE}; axe.run(${JSON.stringify(options)})`);
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target}`));
}
