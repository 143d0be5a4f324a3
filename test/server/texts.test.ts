import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createCaller } from "../../server/caller.js";
import { ServiceError } from "../../server/errors.js";
import { replaceHidden } from "../../server/hidden-characters.js";
import { exactText, storable, text, url } from "../../server/texts.js";
import { anyText } from "../contract/arbitraries.js";
import { openTestCore } from "../support/core.js";
import { callProcedure, catchRejectedFields } from "../support/factories.js";
import { readAllRows } from "../support/personal-data.js";
import { HIDDEN, listTextInputs, type TextInput, withText } from "../support/text-inputs.js";

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

const { services, owner, operator, makeKey } = await openTestCore();

const key = await makeKey(owner.userId);
const stay = { checkInDate: "2055-07-01T13:00:00Z", checkOutDate: "2055-07-08T09:00:00Z" };
const guestEmail = "guest@example.com";
const { form } = await owner.create({ listingId: owner.listingId, numberOfGuests: 2, ...stay, guestEmail });
const endpoint = await operator.webhooks.create({ url: "https://example.com/hooks" });
const [email = expect.fail("there is no email")] = (await operator.emails.list({})).items;
const { addressHash } = await operator.people.erase({ email: "gone@example.com" });
const user = await operator.users.get({ id: owner.userId });

/** By property, or by the group of the procedure and property. Others are just texts. */
const SAMPLES: Record<string, string> = {
  ...stay,
  guestEmail,
  addressHash,
  listingId: owner.listingId,
  listingIds: owner.listingId,
  ownerId: owner.userId,
  userId: owner.userId,
  formId: form.id,
  endpointId: endpoint.id,
  subjectId: form.id,
  correlationId: form.id,
  publicId: form.publicId ?? "",
  listing: owner.listingId,
  user: user.email,
  key: key.prefix,
  url: endpoint.url,
  email: "new@example.com",
  timezone: "Europe/Berlin",
  language: "de",
  role: "OWNER",
  status: "ACCEPTED",
  from: "SENT",
  checkInDay: "2055-07-01",
  expiresAt: stay.checkInDate,
  until: stay.checkInDate,
  since: "2025-07-01T13:00:00Z",
  updatedSince: "2025-07-01T13:00:00Z",
  checkInFrom: "2025-07-01T13:00:00Z",
  checkInTo: "2025-07-02T13:00:00Z",
  erasedAt: "2025-07-01T13:00:00Z",
  before: "1",
  "forms.id": form.id,
  "listings.id": owner.listingId,
  "users.id": owner.userId,
  "people.id": owner.userId,
  "onboarding.id": owner.userId,
  "keys.id": key.id,
  "emails.id": email.id,
  "webhooks.id": endpoint.id,
  "onboarding.after": `${owner.userId} ${owner.listingId}`,
  "secrets.after": form.id,
};
const allInputs = listTextInputs((procedure, property) => {
  const [group] = procedure.split(".");
  return SAMPLES[`${group}.${property}`] ?? SAMPLES[property] ?? `a ${property}`;
});

/** A client's own reference, which is kept as the client has sent it. */
const isReference = ({ procedure, path }: TextInput) => procedure.startsWith("forms.") && path.join() === "externalId";
const references = allInputs.filter(isReference);
const inputs = allInputs.filter((input) => !isReference(input));

/** The hidden characters in all tables. Rows are on lines of their own. */
async function findStored(): Promise<string[]> {
  const found: string[] = [];
  for (const [table, rows] of await readAllRows(services.db.url))
    replaceHidden(rows.replaceAll("\n", ""), (character) => {
      found.push(`${table}: U+${character.codePointAt(0)?.toString(16)}`);
      return "";
    });
  return found;
}

/** Those that Postgres, a terminal or a reader of the page takes badly, each in its own way. The schema rejects all: see above. */
const ATTACKS = [
  "NUL",
  "an escape sequence",
  "CSI",
  "a zero-width space",
  "a line separator",
  "a right-to-left override",
];
const SURROGATES = ["a high surrogate", "a low surrogate"];

/** Calls a procedure, as the operator if it may, with each hidden character in a valid text. Returns the outcomes that must not be. */
async function attack(sample: TextInput): Promise<string[]> {
  const { procedure, path } = sample;
  // Near the start for what is parsed from there, and near the end, where a URL or a search takes anything.
  const places = [
    (text: string, hidden = "") => text.slice(0, 2) + hidden + text.slice(2),
    (text: string, hidden = "") => `${text}${hidden}x`,
  ];
  const attacks = [...ATTACKS, ...SURROGATES].flatMap((what) => places.map((place) => ({ what, place })));
  const calls = attacks.map(async ({ what, place }) => {
    const input = withText(sample, (text) => place(text, HIDDEN[what]));
    const byOperator = await outcomeOf(callProcedure(services, procedure, { kind: "operator" }, input));
    const outcome =
      byOperator === "FORBIDDEN"
        ? await outcomeOf(callProcedure(services, procedure, owner.principal, input))
        : byOperator;
    return HARMLESS.includes(outcome) ? [] : [`${procedure} ${path.join(".")} with ${what}: ${outcome}`];
  });
  return (await Promise.all(calls)).flat();
}

const HARMLESS = ["success", "VALIDATION_ERROR", "RESOURCE_NOT_FOUND", "INVALID_CURSOR"];

const outcomeOf = (called: Promise<unknown>): Promise<string> =>
  called.then(
    () => "success",
    (error: unknown) => (error instanceof ServiceError ? error.serviceCode : String(error)),
  );

test("a hidden character in any text of any procedure is never an internal error, and is never stored", async () => {
  expect(inputs.length).toBeGreaterThan(100);
  const faults: string[] = [];
  for (const sample of inputs) faults.push(...(await attack(sample)));
  expect(faults).toEqual([]);
  expect(await findStored()).toEqual([]);
});

test("the name of an operator and an Idempotency-Key are rejected with a hidden character too", async () => {
  for (const hidden of Object.values(HIDDEN)) {
    const rejected = async (call: () => Promise<unknown>) => catchRejectedFields((async () => call())());
    const named = () =>
      createCaller(services, { kind: "operator", name: `a${hidden}b` }).users.create({ email: "x@example.com" });
    expect(await rejected(named)).toEqual(["name"]);
    const options = { idempotencyKey: `a${hidden}b` };
    const body = { listingId: owner.listingId, numberOfGuests: 3, ...stay };
    const create = () => createCaller(services, owner.principal, options).forms.create(body);
    expect(await rejected(create)).toEqual(["Idempotency-Key"]);
  }
  expect(await findStored()).toEqual([]);
});

test("a client's own reference is stored with the hidden characters that break and reorder nothing, and with no others", async () => {
  const procedures = ["forms.create", "forms.update", "forms.list", "forms.listAll"];
  expect(references.map(({ procedure }) => procedure)).toEqual(procedures);
  const faults: string[] = [];
  for (const sample of references) faults.push(...(await attack(sample)));
  expect(faults).toEqual([]);
  const stored = ["creations: U+200b", "creations: U+2028", "forms: U+200b", "forms: U+2028"];
  expect([...new Set(await findStored())].sort()).toEqual(stored);
});
