import { domainToASCII } from "node:url";
import { INVITATION } from "../outbox/enqueue.js";
import { type SenderSettings, senderOf } from "./sender.js";

/** An email, as its Message-ID names it. */
export interface NamedEmail {
  id: string;
  kind: string;
  formId: string | null;
  /** The email's id if it was added after the form was created; otherwise null. */
  repeatId: string | null;
}

/**
 * The Message-ID of an email, the same for each attempt, so that mail clients recognize duplicates. An invitation that is sent
 * again has another one: it would be dropped as a duplicate.
 */
export function messageIdOf(settings: SenderSettings, { id, kind, formId, repeatId }: NamedEmail): string {
  const { address } = senderOf(settings);
  const domain = address.slice(address.lastIndexOf("@") + 1);
  const local = kind === INVITATION ? ["form", formId, repeatId].filter(Boolean).join("-") : `endpoint-${id}`;
  return `<${local}@${domainToASCII(domain) || domain}>`;
}

const MESSAGE_ID =
  /^<?(?:form-([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})(?:-(\d{1,18}))?|endpoint-(\d{1,18}))@[^@\s]+$/i;

/**
 * The form and the email that a Message-ID of this service names. Without an email, it is the first one of the form. Undefined for
 * any other text. The domain is that of SMTP_FROM at the time, so it may be any.
 */
export function parseMessageId(text: string): { formId: string | null; emailId: string | null } | undefined {
  const [isOurs, formId = null, repeatId, endpointEmailId] = MESSAGE_ID.exec(text.trim()) ?? [];
  return isOurs === undefined ? undefined : { formId, emailId: repeatId ?? endpointEmailId ?? null };
}
