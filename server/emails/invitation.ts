import type { Settings } from "../config.js";
import type { InvitationFacts } from "./facts.js";
import { addsLink } from "./links.js";
import { headOf, type Message } from "./sender.js";
import type { Templates } from "./templates.js";

export interface Notice extends InvitationFacts {
  messageId: string;
  to: string;
}

const safeName = ({ name }: { name: string | null }) => (name === null || addsLink(name, "") ? "" : name);

/** Composes the email that asks a guest to fill in the form. */
export function composeInvitation(
  settings: Settings,
  templates: Templates,
  { messageId, to, ...facts }: Notice,
): Message {
  const { subject, text, html } = templates.render(facts);
  const replyTo = settings.EMAIL_REPLY_TO_OWNER ? facts.host : null;
  return {
    ...headOf(settings, { messageId, to, listing: facts.listing.title }),
    ...(replyTo && { replyTo: { name: safeName(replyTo), address: replyTo.email } }),
    subject,
    text,
    html,
  };
}
