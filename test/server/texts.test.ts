import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { replaceHidden } from "../../server/hidden-characters.js";
import { exactText, storable, text, url } from "../../server/texts.js";
import { anyText } from "../contract/arbitraries.js";
import { HIDDEN } from "../support/text-inputs.js";

describe("a text for people", () => {
  const title = text(20);

  test.each(Object.entries(HIDDEN))("is rejected if it contains %s", (_, character) => {
    const codePoint = character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0");
    for (const schema of [title, exactText(20), url(20)]) {
      const { error } = schema.safeParse(`https://a.io/${character}a`);
      expect(error?.issues.map(({ message }) => message)).toEqual([
        `must not contain control characters or invisible characters, such as U+${codePoint}`,
      ]);
    }
  });

  test.each([
    ["Čajovna „U řeky“"],
    ["👩‍👩‍👧‍👦 ❤️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🇩🇪 1️⃣"],
    ["خانه‌ی ما"],
    ["葛󠄀城市"],
    ["บ้านริมน้ำ"],
    ["ᠮᠣᠩ᠋ᠭᠣᠯ"],
    ["دار\u00a0١"],
    ["St. Pauli, 5½ rooms"],
  ])("keeps what writing systems and emoji need: %s", (value) => {
    expect(text(50).parse(value)).toBe(value);
    expect(exactText(50).parse(value)).toBe(value);
  });

  test.each(["smuggled", "gb", ""])("has no text in a black flag that is not of a country's part: %j", (code) => {
    const tags = Array.from(code, (letter) => String.fromCodePoint(0xe0000 + (letter.codePointAt(0) ?? 0)));
    expect(title.safeParse(`🏴${tags.join("")}\u{e007f}`).success).toBe(false);
  });

  test("is trimmed and composed, so that equal titles are equal; an external id keeps its form", () => {
    expect(title.parse("\u3000 Cafe\u0301 \u2028\ufeff")).toBe("Café");
    expect(exactText(20).parse(" Cafe\u0301 ")).toBe("Cafe\u0301");
    expect(title.parse("e\u0301".repeat(20))).toBe("é".repeat(20));
  });

  test.each([
    ["", "must not be empty"],
    [" \t\u00a0", "must not be empty"],
    ["\u200d", "must contain a visible character"],
    ["\u0301\ufe0f \u200c", "must contain a visible character"],
    ["\u2800", "must contain a visible character"],
    ["x".repeat(21), "must be at most 20 characters"],
    ["🏡".repeat(21), "must be at most 20 characters"],
    ["e\u0301".repeat(41), "must be at most 20 characters"],
  ])("is rejected if it shows nothing or is too long: %j", (value, message) => {
    expect(title.safeParse(value).error?.issues).toEqual([expect.objectContaining({ message })]);
  });

  test("is rejected or canonical, whatever is sent", () => {
    const pieces = fc.oneof(anyText, fc.constantFrom(...Object.values(HIDDEN), "\u200d", "\u0301", "🏡", " "));
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 4 }), (parts) => {
        for (const schema of [title, exactText(20)]) {
          const { data } = schema.safeParse(parts.join(""));
          if (data === undefined) continue;
          expect(schema.parse(data)).toBe(data);
          expect(data).toBe(data.trim());
          expect(Array.from(data).length).toBeLessThanOrEqual(20);
          expect(replaceHidden(data, () => "")).toBe(data);
          if (schema === title) expect(data).toBe(data.normalize());
        }
      }),
      { numRuns: 500 },
    );
  });

  test("that is long is rejected before it is composed", () => {
    const began = performance.now();
    expect(title.safeParse("\u0316\u0301".repeat(200_000)).success).toBe(false);
    expect(performance.now() - began).toBeLessThan(2_000);
  });
});

test("a URL is stored in canonical form, without what a reader cannot see", () => {
  const parsed = (sent: string) => url(60).safeParse(sent).data;
  expect(parsed(" HTTPS://Hooks.Example:443/a b?c=d#é ")).toBe("https://hooks.example/a%20b?c=d#%C3%A9");
  expect(parsed("https://müller.example")).toBe("https://xn--mller-kva.example/");
  expect(parsed("https://a.example/\u200d")).toBe("https://a.example/%E2%80%8D");
  const messageOf = (sent: string) =>
    url(60)
      .safeParse(sent)
      .error?.issues.map(({ message }) => message);
  expect(messageOf("nothing")).toEqual(["must be a URL such as https://example.com/webhooks"]);
  // Longer as it is sent, or as it is stored.
  for (const sent of [`https://a.example/${"/".repeat(60)}`, `https://a.example/${"é".repeat(30)}`])
    expect(messageOf(sent)).toEqual(["must be at most 60 characters"]);
});

test("the answer of another system is stored without what hides in it, also where it is cut", () => {
  expect(storable("550 no\u0000\u001b[2J\u202ebox\nnext\t🏡".slice(0, -1))).toBe("550 no  [2J box\nnext\t ");
});
