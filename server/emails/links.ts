import { replaceHidden } from "../hidden-characters.js";

// Dots as in www.example.com, also the ideographic one that browsers take for it; NFKC makes dots of the other forms.
const LINK = /@|:\/\/|\bwww[.。]|[\p{L}\p{N}\p{M}\p{S}][.。]\p{L}[\p{L}\p{M}]|(?:\d+[.。]){3}\d/iu;

/** The words of a text that may be read as an email address or a link, and its hidden characters. */
export function findLinks(text: string): string[] {
  const hidden: string[] = [];
  const shown = replaceHidden(text, (character) => {
    hidden.push(character);
    return "";
  });
  // Mail clients ignore joiners, and take full-width forms of letters and signs for these.
  const words = shown
    .replace(/\p{DI}/gu, "")
    .normalize("NFKC")
    .split(/\s+/);
  return [...hidden, ...words.filter((word) => LINK.test(word))];
}

/** Whether a text has links that `own`, the operator's part of it, does not have. */
export function addsLink(text: string, own: string): boolean {
  const allowed = findLinks(own);
  return findLinks(text).some((link) => !allowed.includes(link));
}
