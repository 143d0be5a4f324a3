import type { SendMailOptions } from "nodemailer";
import { escapeHtml } from "../values.js";

export interface Notice {
  formId: string;
  publicId: string;
  /** The notification's id if it was added after the form was created; otherwise null. */
  repeatId: string | null;
  to: string;
  from: string;
  formUrlTemplate: string;
  checkInDate: string | null;
  checkOutDate: string | null;
  numberOfGuests: number | null;
  listing: { title: string; address: string; city: string; country: string; timezone: string };
}

/** Composes the email that asks a guest to fill in the form. Times are in the listing's time zone. */
export function composeInvitation(notice: Notice): SendMailOptions {
  const title = notice.listing.title;
  const link = notice.formUrlTemplate.replaceAll("{publicId}", encodeURIComponent(notice.publicId));
  const details = stayDetails(notice);
  const name = ["form", notice.formId, notice.repeatId].filter(Boolean).join("-");
  return {
    // The same for each attempt, so that mail clients can recognize duplicates. Another one for an invitation that the
    // operator sends again: it would be dropped as a duplicate.
    messageId: `<${name}@guest-forms>`,
    from: notice.from,
    to: { name: "", address: notice.to },
    subject: `Please register for your stay at ${title}`,
    text: renderText(title, details, link),
    html: renderHtml(title, details, link),
    headers: { "Auto-Submitted": "auto-generated" },
  };
}

type Detail = readonly [name: string, value: string];

function stayDetails({ listing, checkInDate, checkOutDate, numberOfGuests }: Notice): Detail[] {
  const { address, city, country, timezone } = listing;
  const when = new Intl.DateTimeFormat("en-GB", {
    dateStyle: "full",
    timeStyle: "short",
    timeZone: timezone,
  });
  const instant = (name: string, at: string | null): Detail[] =>
    at ? [[name, `${when.format(new Date(at))} (${timezone})`]] : [];
  return [
    ["Where", `${address}, ${city}, ${country}`],
    ...instant("Check-in", checkInDate),
    ...instant("Check-out", checkOutDate),
    ...(numberOfGuests === null ? [] : [["Guests", `${numberOfGuests}`] as const]),
  ];
}

const invitation = (title: string) => `your host asks you to register for your stay at ${title}.`;

const renderText = (title: string, details: Detail[], link: string) =>
  [
    "Hello,",
    "",
    invitation(title),
    "",
    ...details.map(([name, value]) => `${`${name}:`.padEnd(10)} ${value}`),
    "",
    `Please fill in your registration form: ${link}`,
    "",
  ].join("\n");

function renderHtml(title: string, details: Detail[], link: string): string {
  const rows = details.map(
    ([name, value]) => `<tr><th align="left">${escapeHtml(name)}</th><td>${escapeHtml(value)}</td></tr>`,
  );
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>${escapeHtml(title)}</title></head>
<body>
<p>Hello,</p>
<p>${escapeHtml(invitation(title))}</p>
<table cellpadding="4">
${rows.join("\n")}
</table>
<p><a href="${escapeHtml(link)}">Fill in your registration form</a></p>
<p>${escapeHtml(link)}</p>
</body>
</html>
`;
}

export interface DisabledEndpoint {
  url: string;
  disabledAt: string;
  /** "gone": it answered 410. "failing": all attempts of three days have failed. */
  reason: string;
  /** The address of its owner. */
  to: string;
}

/** Composes the email that notifies the owner of a webhook endpoint that it was disabled. */
export function composeEndpointDisabled(
  notice: DisabledEndpoint & { notificationId: string; from: string },
): SendMailOptions {
  const { origin, pathname, host } = new URL(notice.url);
  const reason = notice.reason === "gone" ? "it answered 410 Gone" : "all attempts of three days have failed";
  return {
    messageId: `<endpoint-${notice.notificationId}@guest-forms>`,
    from: notice.from,
    to: { name: "", address: notice.to },
    subject: `Your webhook endpoint at ${host} was disabled`,
    text: [
      "Hello,",
      "",
      // The query may hold a secret.
      `your webhook endpoint ${origin}${pathname} was disabled at ${notice.disabledAt}, because ${reason}.`,
      "",
      "It receives no more events. To receive them again, fix the receiver, have the endpoint enabled and the failed deliveries",
      "sent again by the operator of the service, then read the list of forms: events from while it was disabled are not sent.",
      "",
    ].join("\n"),
    headers: { "Auto-Submitted": "auto-generated" },
  };
}

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
