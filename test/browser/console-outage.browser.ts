import type { Page } from "playwright-core";
import { afterEach, expect, it } from "vitest";
import { Browser } from "../internal/console-client.js";
import { startInternalGateway, TOKEN } from "../internal/internal-gateway.js";
import { createTestDatabase } from "../support/database.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { findBarriers } from "./chromium.js";
import { button, failed, fillIn, section, settle, startConsole } from "./console-page.js";

const proxy = await TcpProxy.start((await createTestDatabase()).url);
const { visit } = await startConsole({ DATABASE_URL: proxy.url });
/** With the same database and token. It has found no session. */
const other = await startInternalGateway({ DATABASE_URL: proxy.url });

afterEach(() => proxy.restore());

const OUTAGE = "The database does not answer. What waits to be sent is unknown.";

async function expectOutage(page: Page): Promise<void> {
  const health = section(page, "Health");
  await health.getByRole("alert").getByText(OUTAGE).waitFor();
  await health.getByText(/^failed database /).waitFor();
  await health.getByText(/^[1-9] of \d+ checks are ok/).waitFor();
  expect(await section(page, "Waiting and failed").getByText("–", { exact: true }).count()).toBe(9);
  expect(await page.getByText("Too many requests").count()).toBe(0);
}

it("in an outage an open overview says what is wrong, so does a reload, and other pages have the service’s words; it recovers without a reload", async () => {
  await visit(
    "/console",
    async (page) => {
      const health = section(page, "Health");
      await health.getByText(/checks are ok/).waitFor();
      await settle(page);
      const passed = await health.locator("summary").textContent();
      proxy.cut();
      await expectOutage(page);
      expect(await health.locator("summary").textContent()).not.toBe(passed);
      await page.reload();
      await expectOutage(page);
      await page.getByRole("link", { name: "Users", exact: true }).click();
      await page.getByRole("alert").getByText("your session cannot be checked").waitFor();
      await page.getByRole("link", { name: "Overview" }).click();
      await expectOutage(page);
      proxy.restore();
      await page.getByText(OUTAGE).waitFor({ state: "detached" });
      await expect.poll(() => health.getByText("failed database").count()).toBe(0);
    },
    failed(503),
  );
}, 120_000);

it("a session that the process cannot check gets the reason, and the console once the database is back", async () => {
  const operator = new Browser(other.url);
  await operator.signIn();
  proxy.cut();
  await visit(
    "/console",
    async (page) => {
      await page.getByRole("dialog").waitFor();
      const { hostname: domain } = new URL(other.url);
      const [name = "", value = ""] = operator.cookie.split("=");
      await page.context().addCookies([{ name, value, domain, path: "/console" }]);
      await page.reload();
      await page.getByRole("heading", { name: "Guest forms console" }).waitFor();
      await page
        .getByRole("alert")
        .getByText("The database does not answer, so your session cannot be checked.")
        .waitFor();
      await page.getByText("tries again every 10 seconds").waitFor();
      expect(await findBarriers(page)).toEqual([]);
      expect(await page.getByText("Too many requests").count()).toBe(0);
      proxy.restore();
      await section(page, "Health").waitFor();
    },
    { at: other.url, isSignedIn: false, ...failed(503) },
  );
});

it("a sign-in in an outage says that the token is right and why it fails, keeps what was typed, and succeeds afterwards", async () => {
  await visit(
    "/console",
    async (page) => {
      proxy.cut();
      const dialog = page.getByRole("dialog", { name: "Guest forms console" });
      await fillIn(dialog, { "Operator’s token": TOKEN, "Your name": "Grace" });
      await button(dialog, "Sign in").click();
      await dialog.getByRole("alert").getByText("The token is right, but the session cannot be stored").waitFor();
      expect(await page.getByText("Too many requests").count()).toBe(0);
      proxy.restore();
      await button(dialog, "Sign in").click();
      await button(page, "Sign out").waitFor();
    },
    { isSignedIn: false, ...failed(503) },
  );
});
