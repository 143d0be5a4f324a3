import type { FormV1 } from "../forms/schema.js";
import type { OperatorListing } from "../listings/schema.js";
import { firstOwnerOf } from "../memberships/first-owner.js";

/** What the database stores about a form, its listing and the listing's owner. */
export interface InvitationFacts extends Pick<FormV1, "checkInDate" | "checkOutDate" | "numberOfGuests"> {
  publicId: string;
  listing: Pick<OperatorListing, "title" | "address" | "zipCode" | "city" | "country" | "timezone" | "language">;
  /** Null if the listing has no owner. */
  host: { name: string | null; email: string } | null;
}

/** Selects InvitationFacts over `forms f JOIN listings l`. */
export const INVITATION_FACTS = `
  f.public_id AS "publicId", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate",
  f.number_of_guests AS "numberOfGuests",
  json_build_object('title', l.title, 'address', l.address, 'zipCode', l.zip_code, 'city', l.city,
    'country', l.country, 'timezone', l.timezone, 'language', l.language) AS listing,
  (SELECT json_build_object('name', u.name, 'email', u.email) FROM ${firstOwnerOf("l.id")}) AS host`;
