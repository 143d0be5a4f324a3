import type { BrowserContextOptions, Page } from "playwright-core";
import { expect } from "vitest";
import type { Services } from "../../server/access/context.js";
import { startInternalGateway, TOKEN } from "../internal/internal-gateway.js";
import { openChromium, PAGE_CHECKS } from "../support/chromium.js";

export const PHONE = { width: 390, height: 844 };
export const DESKTOP = { width: 1280, height: 900 };
export const NAME = "Ada Operator";

/** Starts a gateway and Chromium for the console. */
export async function startConsole(settings: Record<string, string | number> = {}) {
  const { url, gateway } = await startInternalGateway(settings);
  const browser = await openChromium();
  const services: Services = await gateway.services();

  interface VisitOptions extends BrowserContextOptions {
    /** Texts of the browser's console that are expected, such as those of failed requests. */
    expected?: RegExp;
    /** Default: the gateway's. */
    at?: string;
  }

  /**
   * Opens a page of the console in a context of its own, signed in. Fails if, by the end of `use`, it requests another origin,
   * violates its security policy, throws, or has something in the browser's storage.
   */
  async function visit(path: string, use: (page: Page) => Promise<void>, options: VisitOptions = {}): Promise<void> {
    const { expected = /status of 401/, at = url, ...contextOptions } = options;
    const context = await browser.newContext({ viewport: DESKTOP, ...contextOptions });
    const page = await context.newPage();
    page.setDefaultTimeout(30_000);
    const faults: string[] = [];
    page.on("request", (request) => {
      if (!request.url().startsWith(`${at}/`) && !/^(data|about):/.test(request.url()))
        faults.push(`requested ${request.url()}`);
    });
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type()) && !expected.test(message.text())) faults.push(message.text());
    });
    page.on("pageerror", (error) => faults.push(String(error)));
    await page.addInitScript({ path: PAGE_CHECKS });
    await page.goto(at + path);
    await signIn(page);
    await use(page);
    expect(await page.evaluate("localStorage.length + sessionStorage.length")).toBe(0);
    expect(faults).toEqual([]);
    await context.close();
  }

  return { url, gateway, services, browser, visit };
}

/** Fills in the sign-in that the page shows. */
export async function signIn(page: Page, { token = TOKEN, name = NAME } = {}): Promise<void> {
  await page.getByLabel("Your name").fill(name);
  await page.getByLabel("Operator’s token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
}
