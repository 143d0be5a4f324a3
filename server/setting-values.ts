import { z } from "zod";
import { tlsIssue } from "../prisma/connection.js";

// The kinds of values that settings have. `allowed` ends the error about a value that is not allowed; a `secret` value is not shown.
// The message of a custom issue replaces that error, after the name of the setting.

// Decimal digits only: Number() would also accept "0x10", "1e3", "1.0" and blanks.
export const integer = (min: number, max: number, defaultValue: number) =>
  z
    .string()
    .regex(/^\d+$/)
    .transform(Number)
    .pipe(z.number().min(min).max(max))
    .default(defaultValue)
    .meta({ allowed: `an integer from ${min} to ${max}` });

export const boolean = (defaultValue: boolean) =>
  z
    .enum(["true", "false"])
    .default(defaultValue ? "true" : "false")
    .transform((text) => text === "true")
    .meta({ allowed: "true or false" });

export const url = (schemes: string[]) =>
  z
    .string()
    .refine((text) => URL.canParse(text) && schemes.includes(new URL(text).protocol.slice(0, -1)))
    .meta({ allowed: `a URL such as ${schemes[0]}://…`, secret: true });

/** The URL of a server, with a user name and a password. */
const serverUrl = (schemes: string[], issueOf: (url: URL) => string | undefined = () => undefined) =>
  z
    .string()
    .superRefine((text, { addIssue }) => {
      const [scheme = ""] = text.split("://", 1);
      if (!schemes.includes(scheme.toLowerCase()) || !text.includes("://")) return addIssue({ code: "custom" });
      const message = isReadAsWritten(text) ? issueOf(new URL(text)) : PERCENT_ENCODE;
      if (message !== undefined) addIssue({ code: "custom", message });
    })
    .meta({ allowed: `a URL such as ${schemes[0]}://…`, secret: true });

export const postgresUrl = serverUrl(["postgres", "postgresql"], ({ searchParams }) => tlsIssue(searchParams));
export const smtpUrl = serverUrl(["smtp", "smtps"]);
export const redisUrl = serverUrl(["redis", "rediss"]);

const PERCENT_ENCODE =
  "cannot be read. Check its host and port, and percent-encode special characters of the user name and the password: %23 for #, " +
  "%2F for /, %3F for ?, %40 for @, %25 for %.";

/**
 * Whether the parts of a URL are where they were meant to be. A `#`, `/` or `?` in a password ends the host: after digits, the URL is
 * still valid, with the user name as its host.
 */
function isReadAsWritten(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, pathname, searchParams, hash } = new URL(text);
  const isCut = hash !== "" || pathname.includes("@") || [...searchParams.keys()].some((name) => name.includes("@"));
  return !isCut && isDecodable(username + password, protocol.startsWith("redis"));
}

/** All clients but Redis' take a `%` that begins no escape as it is. */
function isDecodable(text: string, isStrict: boolean): boolean {
  try {
    decodeURIComponent(isStrict ? text : text.replace(/%(?![\da-f]{2})/gi, "%25"));
    return true;
  } catch {
    return false;
  }
}

/** What RFC 3986 allows in no part of a URL. A browser would encode or remove it. */
const NEVER_IN_URLS = /[\s{}<>"\\^`|]/;

export const isHttpUrl = (text: string) =>
  /^https?:\/\//i.test(text) && !NEVER_IN_URLS.test(text) && URL.canParse(text);

export const httpUrl = z.string().refine(isHttpUrl).meta({ allowed: "an http or https URL" });

export const EXAMPLE_PUBLIC_ID = "V1StGXR8_Z5jdHi6B-myT";

// `${publicId}`, `%{publicId}` and `{{publicId}}` are placeholders elsewhere.
export const formUrlTemplate = z
  .string()
  .refine((text) => {
    const link = text.replaceAll("{publicId}", EXAMPLE_PUBLIC_ID);
    const isMisplaced = /[$%]\{publicId\}|^https?:\/+[^/?#]*\{publicId\}/i.test(text);
    // A browser removes what `..` follows.
    return !isMisplaced && isHttpUrl(link) && new URL(link).href.includes(EXAMPLE_PUBLIC_ID);
  })
  .meta({
    // biome-ignore lint/suspicious/noTemplateCurlyInString: as operators write it
    allowed: "an http or https URL with {publicId} in its path or query, not ${publicId} or {{publicId}}",
  });

/** As in the audit trail. */
export const MAX_OPERATOR_NAME = 80;

export const shortText = (allowed: string, max = 200) =>
  z
    .string()
    .trim()
    .regex(new RegExp(`^\\P{Cc}{1,${max}}$`, "u"))
    .meta({ allowed: `${allowed}, of at most ${max} characters` });

export const host = z.string().min(1).default("127.0.0.1").meta({ allowed: "a host name or IP address" });

// As browsers send it: in ASCII, without a port.
export const HOST_NAME = /^(?=.{1,253}$)[a-z\d_-]+(?:\.[a-z\d_-]+)*$/;

export const isOrigin = (text: string) => URL.canParse(text) && new URL(text).origin === text;

/** A sender's name and address. */
export const sender = z
  .string()
  .trim()
  .regex(/^(?:(?:"[^"]*"|[^",;<>@]*)\s*<[^\s<>@,;]+@[^\s<>@,;]+>|[^\s<>@,;]+@[^\s<>@,;]+)$/)
  // Any other placeholder would be sent as it is.
  .refine((text) => !/[{}]/.test(text.replace(/\{listing\}(?=.*<)/g, "")))
  .meta({ allowed: "an email address, with or without a name that may contain {listing}" });

export const origins = z
  .string()
  .transform((list) => list.split(",").map((origin) => origin.trim()))
  .pipe(z.array(z.string().refine((origin) => origin === "*" || isOrigin(origin))).min(1))
  .meta({ allowed: 'comma-separated origins such as https://app.example.com, or "*"' });

export const token = (rule = "") =>
  z
    .string()
    .regex(/^[\x21-\x7e]{32,}$/)
    .optional()
    .meta({ allowed: `a secret of at least 32 characters, without spaces${rule}`, secret: true });
