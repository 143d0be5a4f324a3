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
  const parts = address.split("@").map((part) => part.replace(/[^\w]/g, "\\$&"));
  return masked.replace(new RegExp(`(?<![\\w.-])(?:${parts.join("|")})(?![\\w-])`, "gi"), "***");
}
