import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { AxeResults, RunOptions } from "axe-core";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { packageRoot } from "../../prisma/package-root.js";
import { afterFile } from "../support/after-file.js";

const CHROMIUM =
  ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync) ?? "chromium";

/** Starts Chromium, which is closed after the test file. */
export async function openChromium(): Promise<Browser> {
  const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-sync"];
  const browser = await chromium.launch({ executablePath: CHROMIUM, args });
  afterFile(() => browser.close());
  return browser;
}

export const DESKTOP = { width: 1280, height: 900 };

/** Functions that check how a page looks. */
const PAGE_CHECKS = join(packageRoot(), "test/browser/page-checks.js");

/**
 * Opens an empty page in a context of its own. `faults` is what it does wrong from then on: requests to another origin, errors and
 * warnings, such as of its security policy, unless they are `expected`.
 */
export async function openPage(
  browser: Browser,
  { origin, expected = /^$/, ...options }: BrowserContextOptions & { origin: string; expected?: RegExp },
) {
  const context = await browser.newContext({ viewport: DESKTOP, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const faults: string[] = [];
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !/^(data|about):/.test(url)) faults.push(`requested ${url}`);
  });
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !expected.test(message.text())) faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(String(error)));
  await page.addInitScript({ path: PAGE_CHECKS });
  return { context, page, faults };
}

const AXE = readFileSync(join(packageRoot(), "node_modules/axe-core/axe.min.js"), "utf8");

/** What axe (https://github.com/dequelabs/axe-core) finds, with the elements. */
export async function findBarriers(page: Page, options: RunOptions = {}): Promise<string[]> {
  const { violations } = await page.evaluate<AxeResults>(`${AXE}; axe.run(${JSON.stringify(options)})`);
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target}`));
}
