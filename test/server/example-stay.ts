import { readSettings } from "../../server/config.js";
import type { InvitationFacts } from "../../server/emails/facts.js";
import { loadTemplates } from "../../server/emails/templates.js";
import { exampleFacts } from "../../server/emails/variables.js";

export const SENDER = {
  EMAIL_SENDER_NAME: "Seaside Stays GmbH",
  EMAIL_CONTACT: "help@seaside.example",
  EMAIL_PRIVACY_URL: "https://seaside.example/privacy?a=1&b=2",
};

export const LINK = "https://your-app.example.com/register/V1StGXR8_Z5jdHi6B-myT";

export const openTemplates = (env: Record<string, string> = {}) => loadTemplates(readSettings(env));

export type Overrides = Partial<Omit<InvitationFacts, "listing">> & { listing?: Partial<InvitationFacts["listing"]> };

/** A stay that is fixed, for decades. */
export function stay({ listing, ...form }: Overrides = {}): InvitationFacts {
  const example = exampleFacts();
  return {
    ...example,
    checkInDate: "2055-07-01T13:00:00.000Z",
    checkOutDate: "2055-07-08T09:00:00.000Z",
    ...form,
    listing: { ...example.listing, ...listing },
  };
}

/** With ordinary spaces. */
export const withoutNbsp = (text: string) => text.replaceAll("\u00a0", " ");
