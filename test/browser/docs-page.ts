import type { BrowserContextOptions, Page } from "playwright-core";
import { expect } from "vitest";
import { openChromium, PAGE_CHECKS } from "../support/chromium.js";
import { startTestGateway } from "../support/gateway.js";

export const PHONE = { width: 390, height: 844 };
export const DESKTOP = { width: 1280, height: 900 };

/** A gateway and a browser that opens its documentation pages. */
export async function openDocs() {
  const gateway = await startTestGateway();
  const browser = await openChromium();
  /** Opens a page. Fails if, by the end of `use`, it requests another origin, violates its security policy or throws. */
  async function visit(path: string, options: BrowserContextOptions, use: (page: Page) => Promise<void>) {
    const context = await browser.newContext({ viewport: DESKTOP, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(30_000);
    const faults: string[] = [];
    page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(`${gateway.url}/`) && !url.startsWith("data:")) faults.push(`requested ${url}`);
    });
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") faults.push(message.text());
    });
    page.on("pageerror", (error) => faults.push(String(error)));
    await page.addInitScript({ path: PAGE_CHECKS });
    await page.goto(gateway.url + path);
    await use(page);
    expect(faults).toEqual([]);
    await context.close();
  }
  return { gateway, visit };
}
