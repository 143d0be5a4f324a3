import type { BrowserContextOptions, Locator, Page } from "playwright-core";
import { expect } from "vitest";
import type { Services } from "../../server/access/context.js";
import { startInternalGateway, TOKEN } from "../internal/internal-gateway.js";
import { asOperator, makeListing, makeUser } from "../support/factories.js";
import { openChromium, openPage } from "./chromium.js";

export const NAME = "Ada Operator";

/** Of the addresses of guests, which no page may receive. */
const GUEST_DOMAIN = "@guests.test";

let guests = 0;

export const guestAddress = () => `guest${++guests}${GUEST_DOMAIN}`;

/** Starts a gateway and Chromium for the console. */
export async function startConsole(settings: Record<string, string | number> = {}) {
  const { url, gateway } = await startInternalGateway(settings);
  const browser = await openChromium();
  const services = await gateway.services();

  interface VisitOptions extends BrowserContextOptions {
    /** Who signs in. */
    name?: string;
    /** Default: true. */
    isSignedIn?: boolean;
    /** Texts of the browser's console that are expected, such as those of failed requests. */
    expected?: RegExp;
    /** Default: the gateway's. */
    at?: string;
  }

  /**
   * Opens a page of the console in a context of its own, signed in. Fails if, by the end of `use`, it requests another origin,
   * violates its security policy, throws, has received a guest's address, or has something in the browser's storage.
   */
  async function visit(path: string, use: (page: Page) => Promise<void>, options: VisitOptions = {}): Promise<void> {
    const { name = NAME, isSignedIn = true, expected = /status of 401/, at = url, ...contextOptions } = options;
    const { context, page, faults } = await openPage(browser, { origin: at, expected, ...contextOptions });
    const bodies: Promise<string>[] = [];
    // Of those that a later navigation drops there is no body.
    page.on("response", (response) => void bodies.push(response.text().catch(() => "")));
    watchRequests(page);
    await page.goto(at + path);
    if (isSignedIn) await signIn(page, { name });
    await use(page);
    expect((await Promise.all(bodies)).filter((body) => body.includes(GUEST_DOMAIN))).toEqual([]);
    expect(await page.evaluate("localStorage.length + sessionStorage.length")).toBe(0);
    expect(faults).toEqual([]);
    await context.close();
  }

  return { url, gateway, services, operator: asOperator(services), visit };
}

/** The same with a listing and its owner. */
export async function startConsoleWithListing() {
  const started = await startConsole();
  const owner = await makeUser(started.services, { name: "Olga Owner", email: "olga@people.test" });
  const listing = await makeListing(started.services, owner.id, { title: "Boat house" });
  return { ...started, owner, listing };
}

/** Fills in the sign-in that the page shows. */
async function signIn(page: Page, { token = TOKEN, name = NAME } = {}): Promise<void> {
  await page.getByLabel("Operator’s token").fill(token);
  await page.getByLabel("Your name").fill(name);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
}

/** Requests that are under way, and when the last one began or ended. */
const requests = new WeakMap<Page, { pending: number; at: number }>();

function watchRequests(page: Page): void {
  const state = { pending: 0, at: performance.now() };
  const count = (change: number) => () =>
    Object.assign(state, { pending: state.pending + change, at: performance.now() });
  page.on("request", count(1)).on("requestfinished", count(-1)).on("requestfailed", count(-1));
  requests.set(page, state);
}

const QUIET_MS = 80;

/** Waits until the page has read all that it shows. */
export async function settle(page: Page): Promise<void> {
  const shown = "!!document.querySelector('h1, dialog') && !document.querySelector('[aria-busy=true]')";
  const isQuiet = async () => {
    const { pending = 0, at = 0 } = requests.get(page) ?? {};
    return pending <= 0 && performance.now() - at > QUIET_MS && (await page.evaluate<boolean>(shown));
  };
  await expect.poll(isQuiet, { interval: 20 }).toBe(true);
}

/** Options of a visit in which requests fail, with these statuses or without an answer. */
export const failed = (...statuses: (number | string)[]) => ({
  expected: new RegExp(`status of (401|${statuses.join("|")})|ERR_`),
});

/** The button with exactly this name. */
export const button = (of: Page | Locator, name: string | RegExp) => of.getByRole("button", { name, exact: true });

/** Presses a button that opens a dialog, and returns the dialog. */
export async function openDialog(page: Page, name: string | RegExp, title: string | RegExp = name): Promise<Locator> {
  await button(page, name).click();
  const dialog = page.getByRole("dialog", { name: title, exact: true });
  await dialog.waitFor();
  return dialog;
}

/** Presses the button of a dialog's form, and waits until it is done, which closes the dialog. */
export async function submit(dialog: Locator, name: string): Promise<void> {
  await button(dialog, name).click();
  await dialog.waitFor({ state: "detached" });
}

/** A part of a page, by its title. */
export const section = (page: Page, name: string | RegExp) =>
  page.locator("section").filter({ has: page.getByRole("heading", { name, level: 2, exact: true }) });

/** Waits until the page says what was done. */
export const waitForNotice = (page: Page, text: string | RegExp) =>
  page.getByRole("status").getByText(text).last().waitFor();

/** Types into fields, found by the beginnings of their labels. */
export async function fillIn(form: Locator, values: Record<string, string>): Promise<void> {
  for (const [label, value] of Object.entries(values)) await form.getByLabel(new RegExp(`^${label}`)).fill(value);
}

/** What was done to something in the name of NAME, oldest first. */
export async function changesByConsole(services: Services, subjectId: string): Promise<string[]> {
  const entries = await asOperator(services).audit.trail({ subjectId });
  return entries
    .filter(({ actorName }) => actorName === NAME)
    .map(({ action }) => action)
    .reverse();
}
