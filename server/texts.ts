import { z } from "zod";
import { expected } from "./errors.js";
import { replaceHidden } from "./hidden-characters.js";

/** The first hidden character of a text, as `U+200B`. */
function findHidden(text: string): string | undefined {
  const found: string[] = [];
  replaceHidden(text, (character) => {
    found.push(character);
    return "";
  });
  return found[0] && `U+${found[0].codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** What another system has answered, as it is stored: line breaks and tabs are the only hidden characters that it keeps. */
export const storable = (text: string) =>
  replaceHidden(text, (character) => (/[\n\t]/.test(character) ? character : " "));

/** Something besides spaces, joiners and accents. The last two are symbols that are displayed as a space. */
const VISIBLE = /[^\p{Z}\p{M}\p{Cc}\p{Cf}\p{Cs}\u2800\u{1d159}]/u;

const tooLong = (max: number) => ({ error: `must be at most ${max} characters`, abort: true });

/** The rules of every text that is stored or searched for. Lengths are in code points, as in JSON Schema. */
const withRules = (schema: z.ZodString, max: number) =>
  schema
    .min(1, { error: "must not be empty", abort: true })
    .max(max, tooLong(max))
    .superRefine((text, { addIssue }) => {
      const hidden = findHidden(text);
      if (hidden) addIssue(`must not contain control characters or invisible characters, such as ${hidden}`);
      else if (!VISIBLE.test(text)) addIssue("must contain a visible character");
    });

const trimmed = z.string({ error: expected("a string") }).trim();

/** The composed form (NFC) of a text is at least a quarter as long. To compose a longer one could take a second. */
const MAX_COMPOSITION = 4;

/** Text for people, such as a title, of 1 to `max` characters. Accents become part of their letter (NFC), so that equal texts are found. */
export const text = (max: number) => withRules(trimmed.max(MAX_COMPOSITION * max, tooLong(max)).normalize("NFC"), max);

/** Text of another system that is compared exactly, such as an external id, of 1 to `max` characters. */
export const exactText = (max: number) => withRules(trimmed, max);

/** No control characters, and nothing that changes the direction of the text around it. JSON Schema knows no names of such sets. */
const SAFE = "^[^\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]*$";
const IS_SAFE = new RegExp(SAFE, "u");

/** A client's own reference, compared exactly, of 1 to 255 UTF-16 code units. */
export const clientReference = trimmed
  .min(1, { error: "must not be empty", abort: true })
  // Zod counts code points.
  .refine((text) => text.length <= 255, tooLong(255))
  .refine(
    (text) => IS_SAFE.test(text) && !/\p{Cs}/u.test(text),
    "must not contain control characters, lone surrogates or bidi controls",
  )
  .meta({ pattern: SAFE, maxLength: 255 });

/** Id of a user or listing in the operator's own system. An import finds the row again by it, or by the id of the row itself. */
export const externalId = exactText(200);

/** A user or listing by external id or id; a user also by email address. */
export const reference = exactText(254);

/** What an operator's list is searched for. */
export const search = text(254).optional();

/** The name that an operator gives at the sign-in to the console. */
export const operatorName = text(80);

/** A URL of at most `max` characters, in canonical form: what is stored and shown is what is requested. */
export const url = (max: number) =>
  exactText(max)
    .transform((sent, { addIssue }) => {
      if (URL.canParse(sent)) return new URL(sent).href;
      addIssue("must be a URL such as https://example.com/webhooks");
      return z.NEVER;
    })
    .pipe(z.string().max(max, tooLong(max)));
