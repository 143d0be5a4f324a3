import { storable } from "../texts.js";

/** Masks an address for logs: `a***@e***.com`. */
export function maskEmail(address: string): string {
  const [local = "", domain = ""] = address.split("@");
  const ending = domain.slice(domain.lastIndexOf("."));
  return `${local.slice(0, 1)}***@${domain.slice(0, 1)}***${ending}`;
}

/** Masks everything that looks like an address. */
export const maskEmails = (text: string) => text.replace(/[^\s<>()[\]"':;,]+@[^\s<>()[\]"':;,]+/g, maskEmail);

/** Masks the address in a mail server's reply, which may quote all or part of it. */
export function redactEmail(text: string, address: string): string {
  const masked = maskEmails(text);
  if (address === "") return masked;
  const parts = address.split("@").map((part) => part.replace(/[^\w]/g, "\\$&"));
  return masked.replace(new RegExp(`(?<![\\w.-])(?:${parts.join("|")})(?![\\w-])`, "gi"), "***");
}

const MAX_ANSWER_CHARACTERS = 500;

/** What a mail server has said, as it is logged and stored: one line, without the guest's address and link. */
export function toAnswer(text: string, address: string, template: string): string {
  const line = redactEmail(text, address).replace(/[\s\p{Cc}]+/gu, " ");
  return redactLink(storable(line.slice(0, MAX_ANSWER_CHARACTERS)), template);
}

/** Spam filters quote rejected links, and anyone with the guest's link can open the form. */
function redactLink(text: string, template: string): string {
  const [before = template] = template.split("{publicId}");
  if (before === "") return text;
  const [first = "", ...rest] = text.split(before);
  return first + rest.map((part) => `[link]${part.replace(/^\S+/, "")}`).join("");
}
