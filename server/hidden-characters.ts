/**
 * Characters that readers cannot see, or that Postgres, terminals or mail servers do not take as text: controls, lone surrogates,
 * separators of lines, noncharacters, and what Unicode displays as nothing, such as bidi controls and zero-width spaces.
 * Joiners and variation selectors are not: Persian, emoji and Japanese names need them.
 */
const HIDDEN = String.raw`(?![\u200c\u200d\p{VS}])[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{NChar}\p{DI}\ufff9-\ufffb]`;

/** The flag of a part of a country, such as England: a black flag and its code in characters that are hidden anywhere else. */
const FLAG = String.raw`\u{1f3f4}[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{3,6}\u{e007f}`;

const FLAG_OR_HIDDEN = new RegExp(`(${FLAG})|${HIDDEN}`, "gu");

/** Printable ASCII has no hidden characters. This finds out three times as fast. */
const MAY_HIDE = /[^\x20-\x7e]/;

/** Replaces the hidden characters of a text. */
export const replaceHidden = (text: string, replace: (character: string) => string): string =>
  MAY_HIDE.test(text)
    ? text.replace(FLAG_OR_HIDDEN, (found: string, flag: string | undefined) => flag ?? replace(found))
    : text;
