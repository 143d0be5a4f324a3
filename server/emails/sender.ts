import type { SendMailOptions } from "nodemailer";
import type { Settings } from "../config.js";
import { addsLink } from "./links.js";

// Used by previews and by `dev` without a mail server.
const EXAMPLE_FROM = "Guest forms <no-reply@example.com>";
const EXAMPLE_FORM_URL = "https://your-app.example.com/register/{publicId}";

/** An email, as nodemailer takes it. */
export interface Message extends SendMailOptions {
  from: { name: string; address: string };
}

export type SenderSettings = Pick<
  Settings,
  "SMTP_FROM" | "FORM_URL_TEMPLATE" | "EMAIL_SENDER_NAME" | "EMAIL_CONTACT" | "EMAIL_PRIVACY_URL"
>;

/** What the settings say about the sender, and where guests find their form. */
export function senderOf({
  SMTP_FROM = EXAMPLE_FROM,
  FORM_URL_TEMPLATE = EXAMPLE_FORM_URL,
  EMAIL_SENDER_NAME,
}: SenderSettings) {
  const [, quoted, plain, address = SMTP_FROM] = /^(?:"([^"]*)"\s*|([^<]*))<(.*)>$/.exec(SMTP_FROM) ?? [];
  const displayName = (quoted ?? plain ?? "").trim();
  const ownName = displayName.includes(LISTING) ? "" : displayName;
  return { displayName, address, formUrlTemplate: FORM_URL_TEMPLATE, name: EMAIL_SENDER_NAME ?? (ownName || null) };
}

/** In the display name of SMTP_FROM, the listing's title. */
const LISTING = "{listing}";

/** The display name with the title of the listing. Undefined if it needs one, and there is none, or one with a link. */
function withListing(displayName: string, listing: string | undefined): string | undefined {
  if (!displayName.includes(LISTING)) return displayName;
  if (listing === undefined) return undefined;
  const full = displayName.replaceAll(LISTING, () => listing);
  return addsLink(full, displayName.replaceAll(LISTING, "")) ? undefined : full;
}

/** The head of a message. `listing`: the title of the listing that it is about. */
export function headOf(
  settings: SenderSettings,
  { messageId, to, listing }: { messageId: string; to: string; listing?: string },
) {
  const { displayName, address, name } = senderOf(settings);
  return {
    messageId,
    from: { name: withListing(displayName, listing) ?? name ?? "", address },
    to: { name: "", address: to },
    headers: { "Auto-Submitted": "auto-generated" },
  } satisfies SendMailOptions;
}
