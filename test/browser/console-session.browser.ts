import { describe, expect, it } from "vitest";
import { startInternalGateway, TOKEN } from "../internal/internal-gateway.js";
import { makeForm } from "../support/factories.js";
import {
  button,
  failed,
  fillIn,
  NAME,
  openDialog,
  settle,
  startConsoleWithListing,
  submit,
  waitForNotice,
} from "./console-page.js";

const { services, operator, visit, owner, listing } = await startConsoleWithListing();

const endSessions = () =>
  services.db.pool.query("UPDATE operator_sessions SET last_used_at = now() - interval '1 hour'");

describe("a sign-in", () => {
  it("with a wrong token says so and keeps what was typed; after too many, it says when to try again, and the right token signs in", async () => {
    const other = await startInternalGateway();
    await visit(
      "/console",
      async (page) => {
        await page.getByLabel("Your name").fill("Grace");
        await page.getByLabel("Operator’s token").fill("wrong");
        for (let failure = 0; failure < 10; failure++) {
          const answer = page.waitForResponse(`${other.url}/console/session`);
          await button(page, "Sign in").click();
          expect((await answer).status()).toBe(401);
          await page.getByText("The operator’s token is wrong.").waitFor();
          await expect.poll(() => page.evaluate("document.activeElement.name")).toBe("token");
        }
        expect(await page.getByLabel("Your name").inputValue()).toBe("Grace");
        expect(await page.getByLabel("Operator’s token").inputValue()).toBe("wrong");
        await button(page, "Sign in").click();
        await page
          .getByRole("alert")
          .getByText(/Too many requests\. Wait \d+ s\./)
          .first()
          .waitFor();
        expect(await page.getByLabel("Operator’s token").inputValue()).toBe("wrong");
        await page.getByLabel("Operator’s token").fill(TOKEN);
        await button(page, "Sign in").click();
        await button(page, "Sign out").waitFor();
      },
      { at: other.url, isSignedIn: false, ...failed(429) },
    );
  });

  it("opens above the page when the session has ended: what was typed is still there, and is saved afterwards", async () => {
    await visit(`/console/listings/${listing.id}`, async (page) => {
      const edit = await openDialog(page, "Edit", /^Edit/);
      await fillIn(edit, { District: "Harbour", "Maximum guests": "7" });
      await endSessions();
      await button(edit, "Save").click();
      const again = page.getByRole("dialog", { name: "Your session has ended" });
      expect(await again.getByLabel("Your name").inputValue()).toBe(NAME);
      expect(await page.getByText("Boat house").filter({ visible: true }).count()).toBe(0);
      await again.getByLabel("Operator’s token").fill(TOKEN);
      await button(again, "Sign in").click();
      await again.waitFor({ state: "detached" });
      expect(await edit.getByLabel(/^District/).inputValue()).toBe("Harbour");
      expect(await edit.getByLabel(/^Maximum guests/).inputValue()).toBe("7");
      await submit(edit, "Save");
      await waitForNotice(page, "Saved.");
    });
    expect(await operator.listings.getAny({ id: listing.id })).toMatchObject({
      district: "Harbour",
      maxPeopleInListing: 7,
    });
  });

  it("is asked for after a sign-out, and Back shows nothing of the page before", async () => {
    await visit(`/console/listings/${listing.id}`, async (page) => {
      await page.getByRole("link", { name: "Users" }).click();
      await button(page, "Sign out").click();
      await page.getByRole("dialog", { name: "Guest forms console" }).waitFor();
      await page.goBack();
      await page.getByRole("dialog", { name: "Guest forms console" }).waitFor();
      expect(await page.getByText("Boat house").count()).toBe(0);
    });
  });

  it("ends in all tabs at once: the others hide what they show, and nothing typed there is lost", async () => {
    await visit(`/console/listings/${listing.id}`, async (page) => {
      const other = await page.context().newPage();
      await other.goto(page.url());
      const edit = await openDialog(other, "Edit", /^Edit/);
      await fillIn(edit, { District: "Old town" });
      await button(page, "Sign out").click();
      await other.getByRole("dialog", { name: "Your session has ended" }).waitFor();
      expect(await other.getByText("Boat house").filter({ visible: true }).count()).toBe(0);
      expect(await other.getByLabel(/^District/).inputValue()).toBe("Old town");
    });
  });
});

it("a page that only reads itself again does not extend the session, and a key press does", async () => {
  const { id } = await makeForm(services, owner.id, listing.id);
  const readAgo = async () => {
    const { rows } = await services.db.pool.query(
      "SELECT extract(epoch FROM now() - last_used_at)::float AS ago FROM operator_sessions ORDER BY created_at DESC",
    );
    return rows[0].ago as number;
  };
  const setAgo = (minutes: number) =>
    services.db.pool.query("UPDATE operator_sessions SET last_used_at = now() - make_interval(mins => $1)", [minutes]);
  await visit(`/console/forms/${id}`, async (page) => {
    await settle(page);
    const idleSeconds: number[] = [];
    page.on("request", (request) => {
      if (request.url().includes("/console/trpc/")) idleSeconds.push(Number(request.headers()["x-idle-seconds"]));
    });
    const nextRead = () => page.waitForResponse(/forms\.getAny/);
    // For the page, the sign-in was 25 minutes ago. Timers go on.
    await page.clock.setFixedTime(Date.now() + 25 * 60_000);
    await nextRead();
    await setAgo(24);
    idleSeconds.length = 0;
    expect([(await nextRead()).status(), (await nextRead()).status()]).toEqual([200, 200]);
    expect(Math.min(...idleSeconds)).toBeGreaterThanOrEqual(25 * 60);
    expect(await readAgo()).toBeGreaterThanOrEqual(24 * 60);
    await page.keyboard.press("Shift");
    await nextRead();
    await expect.poll(readAgo).toBeLessThan(60);
    // 30 minutes after the last input.
    await setAgo(30);
    await page.getByRole("dialog", { name: "Your session has ended" }).waitFor();
  });
});
