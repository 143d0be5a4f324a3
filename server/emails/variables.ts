import { guestUrlOf } from "../forms/queries.js";
import { isKnownToIntl } from "../listings/timezones.js";
import type { InvitationFacts } from "./facts.js";
import { type SenderSettings, senderOf } from "./sender.js";
import { formatTime, nameTimeZone } from "./times.js";

type Filled = ReturnType<typeof variablesOf>;

export type Variables = Omit<Filled, "listing"> & { listing: Record<keyof Filled["listing"], string | null> };

/** The variables without what the owners of a listing decide. */
export const withoutTenantTexts = (variables: Variables): Variables => ({
  ...variables,
  listing: { title: null, shortTitle: null, address: null, zipCode: null, city: null, country: null },
  host: { name: null },
});

/** The variables of templates, documented in gateway/docs/operating.md. `locale` decides how times are written. */
export function variablesOf(
  { publicId, listing, host, ...form }: InvitationFacts,
  settings: SenderSettings,
  { language, locale }: { language: string; locale: string },
) {
  const { title, address, zipCode, city, country, timezone } = listing;
  // Without a zone that this Node.js knows, times are left out: other times than those at the property would mislead the guest.
  const isKnown = isKnownToIntl(timezone);
  const { formUrlTemplate, name } = senderOf(settings);
  const format = (at: string | null, time?: { timeStyle: "short" }) =>
    at === null || !isKnown ? null : formatTime(at, locale, { timeZone: timezone, ...time });
  const isEarly = form.checkInDate !== null && Date.parse(form.checkInDate) > Date.now();
  return {
    /** Language of the templates. */
    language,
    /** The guest's link to the form. */
    link: guestUrlOf({ publicId }, formUrlTemplate),
    listing: { title, shortTitle: shorten(title), address, zipCode, city, country },
    /** In the listing's time zone. `deadline` is the day of the check-in; null once it has passed. */
    stay: {
      checkIn: format(form.checkInDate, { timeStyle: "short" }),
      checkOut: format(form.checkOutDate, { timeStyle: "short" }),
      deadline: isEarly ? format(form.checkInDate) : null,
      timeZone: isKnown ? nameTimeZone(locale, timezone) : timezone,
    },
    party: { numberOfGuests: form.numberOfGuests },
    /** The owner of the listing. */
    host: { name: host?.name ?? null },
    /** The operator. */
    sender: { name, contact: settings.EMAIL_CONTACT ?? null, privacyUrl: settings.EMAIL_PRIVACY_URL ?? null },
  };
}

const MAX_SHORT_TITLE_CHARACTERS = 30;

/** Cuts between characters as readers see them: not within an emoji. */
function shorten(title: string): string {
  const characters = Array.from(new Intl.Segmenter().segment(title), ({ segment }) => segment);
  if (characters.length <= MAX_SHORT_TITLE_CHARACTERS) return title;
  const start = characters.slice(0, MAX_SHORT_TITLE_CHARACTERS - 1).join("");
  return `${start.replace(/[\s\p{P}]+$/u, "")}…`;
}

/** A stay in ten days, for previews and to check templates. */
export function exampleFacts(language: string | null = null): InvitationFacts {
  const at = (days: number, time: string) =>
    `${new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 11)}${time}:00Z`;
  return {
    publicId: "V1StGXR8_Z5jdHi6B-myT",
    checkInDate: at(10, "13:00"),
    checkOutDate: at(14, "09:00"),
    numberOfGuests: 2,
    listing: {
      title: "Loft by the canal",
      address: "Paul-Lincke-Ufer 20",
      zipCode: "10999",
      city: "Berlin",
      country: "Germany",
      timezone: "Europe/Berlin",
      language,
    },
    host: { name: "Anna Berger", email: "anna@example.com" },
  };
}

/** The same without all that a form or listing may lack. */
export const sparseFacts = (): InvitationFacts => ({
  ...exampleFacts(),
  checkInDate: null,
  checkOutDate: null,
  numberOfGuests: null,
  host: null,
});
