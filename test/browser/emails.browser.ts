import { expect, it } from "vitest";
import { readSettings } from "../../server/config.js";
import { loadTemplates } from "../../server/emails/templates.js";
import { exampleFacts } from "../../server/emails/variables.js";
import { findBarriers, openChromium, openPage } from "./chromium.js";

const templates = await loadTemplates(
  readSettings({
    EMAIL_SENDER_NAME: "Seaside Stays GmbH",
    EMAIL_CONTACT: "help@seaside.example",
    EMAIL_PRIVACY_URL: "https://seaside.example/a/long/path/to/the/privacy/notice/of/guests.html",
  }),
);
const browser = await openChromium();
const example = exampleFacts();
const TITLES = {
  usual: example.listing.title,
  "right-to-left": "דירה על שפת הים (תל אביב) – 3",
  long: `Donaudampfschifffahrtsgesellschaftskapitänswohnung${"-am-alten-Hafen".repeat(9)}`,
};

/** Not the best practices: a mail client has the landmarks. */
const WCAG = { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] };

it.each(
  templates.languages.flatMap((language) => (["light", "dark"] as const).map((scheme) => [language, scheme] as const)),
)(
  "the invitation in %s, %s, is readable on any width, has one button and loads nothing",
  async (language, colorScheme) => {
    const { context, page } = await openPage(browser, { origin: "about:blank", colorScheme });
    await page.goto("about:blank");
    const requests: string[] = [];
    page.on("request", (request) => void requests.push(request.url()));
    for (const [kind, title] of Object.entries(TITLES)) {
      await page.setContent(templates.render({ ...example, listing: { ...example.listing, title } }, language).html);
      for (const width of [360, 700]) {
        await page.setViewportSize({ width, height: 800 });
        expect(await page.evaluate("cutTexts()"), `${kind} at ${width} px`).toEqual([]);
      }
    }
    expect(await page.evaluate("lowContrast()")).toEqual([]);
    expect(await findBarriers(page, WCAG)).toEqual([]);
    const button = page.locator("td[bgcolor] a");
    expect(await button.count()).toBe(1);
    // WCAG 2.2, 2.5.5.
    expect((await button.boundingBox())?.height).toBeGreaterThanOrEqual(44);
    const background = await page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor");
    expect(background).toBe(colorScheme === "dark" ? "rgb(33, 36, 41)" : "rgb(255, 255, 255)");
    expect(requests).toEqual([]);
    await context.close();
  },
);
