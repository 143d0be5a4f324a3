// Written by `npm run generate`.

/** The statuses that this version of the SDK knows. `UNKNOWN` stands for any status that the service does not list. */
export const FORM_STATUSES = [
  "SENT",
  "COMPLETED",
  "ACCEPTED",
  "REJECTED",
  "VALIDATED",
  "INVALIDATED",
  "CHECKED_OUT",
  "CANCELLED",
  "UNKNOWN",
] as const;

/** A status that this version of the SDK knows. */
export type KnownFormStatus = (typeof FORM_STATUSES)[number];

/** A form's status. Later versions of the service may add values: treat unknown ones as `UNKNOWN`. */
export type FormStatus = KnownFormStatus | (string & {});

/** The codes of the error envelope that this version of the SDK has a class for. */
export type KnownErrorCode =
  | "UNAUTHENTICATED"
  | "FORBIDDEN"
  | "RESOURCE_NOT_FOUND"
  | "INVALID_CURSOR"
  | "VALIDATION_ERROR"
  | "PAYLOAD_TOO_LARGE"
  | "IDEMPOTENCY_KEY_REUSED"
  | "RATE_LIMITED"
  | "INTERNAL_ERROR";

/** A guest-registration form. Fields that later versions of the service add are kept. */
export interface FormV1 {
  /** Unique id of the form. */
  id: string;
  /** Listing the form belongs to. */
  listingId: string;
  /**
   * Random slug of the form, 21 characters, for the link that the guest opens. Anyone who has it can open the
   * form.
   */
  publicId: string | null;
  /** The client's own reference, as sent; null if none was sent. */
  externalId: string | null;
  /**
   * Status of the form. UNKNOWN stands for any status that this version does not list. New values may be
   * added: handle a value you do not know like UNKNOWN.
   */
  status: FormStatus;
  /** Check-in instant, ISO 8601 in UTC. */
  checkInDate: string | null;
  /** Check-out instant, ISO 8601 in UTC. */
  checkOutDate: string | null;
  /** Number of guests on the form. */
  numberOfGuests: number | null;
  /** Number of vehicles. Set by the guest or the host in the operator's app; null until then. */
  numberOfVehicles: number | null;
  /** Number of pets. Set by the guest or the host in the operator's app; null until then. */
  numberOfPets: number | null;
  /** Creation time, ISO 8601 in UTC. Lists are sorted by it. */
  createdAt: string;
  /**
   * Time of the last change of any of these fields except `guestUrl`, ISO 8601 in UTC. `createdAt` before the
   * first change.
   */
  updatedAt: string;
  /**
   * Link to the page where the guest fills in the form, with the `publicId`. Null if the operator has set no
   * such page. It follows the operator's setting: do not store it.
   */
  guestUrl: string | null;
}

/** A listing. Fields that later versions of the service add are kept. */
export interface Listing {
  /** Unique id of the listing. */
  id: string;
  /** Random public slug of the listing, 21 characters. */
  publicId: string;
  /** Id of the listing in the operator's own system. */
  externalId: string | null;
  /** Name of the listing. */
  title: string;
  /** Street and number. */
  address: string;
  /** City. */
  city: string;
  /** Country. */
  country: string;
  /** Postal code. */
  zipCode: string;
  /** District. */
  district: string | null;
  /** IANA time zone identifier, such as Europe/Berlin. */
  timezone: string;
  /** Whether new forms can be created on the listing, or moved to it. */
  active: boolean;
  /** Maximum number of guests per form; null for no limit. */
  maxPeopleInListing: number | null;
  /** Maximum number of vehicles per form; null for no limit. */
  maxVehicles: number | null;
  /** Whether pets are allowed; null if not specified. */
  allowPets: boolean | null;
  /** Creation time, ISO 8601 in UTC. Lists are sorted by it. */
  createdAt: string;
}

/** The stay, as sent by a create. */
export interface FormInput {
  /**
   * Listing the form belongs to. It must be in the key's scope. On update, another listing moves the form
   * there.
   */
  listingId: string;
  /** Check-in instant: ISO 8601 with a UTC offset, such as 2027-07-01T15:00:00+02:00. */
  checkInDate: Date | string;
  /** Check-out instant: ISO 8601 with a UTC offset. Must be after checkInDate. */
  checkOutDate: Date | string;
  /** Number of guests: from 1 to the listing's maxPeopleInListing, if that is set. */
  numberOfGuests: number;
  /**
   * Email address of the guest, at most 254 characters. Write-only: never returned. On create, the guest is
   * sent a link to the form, unless the stay is over. On update, the stored address is kept if this is absent
   * or null; another address is sent the link if the form is SENT and the stay is not over.
   */
  guestEmail?: string | null | undefined;
  /**
   * The client's own reference, such as the booking's id, of 1 to 255 UTF-16 code units. Stays that differ
   * only in it are two forms. On update, the stored one is kept if this is absent, and removed if it is null.
   */
  externalId?: string | null | undefined;
}

/** The stay, as sent by an update. */
export interface FormUpdate {
  /**
   * Listing the form belongs to. It must be in the key's scope. On update, another listing moves the form
   * there.
   */
  listingId: string;
  /** Check-in instant: ISO 8601 with a UTC offset, such as 2027-07-01T15:00:00+02:00. */
  checkInDate: Date | string;
  /** Check-out instant: ISO 8601 with a UTC offset. Must be after checkInDate. */
  checkOutDate: Date | string;
  /** Number of guests: from 1 to the listing's maxPeopleInListing, if that is set. */
  numberOfGuests: number;
  /**
   * Email address of the guest, at most 254 characters. Write-only: never returned. On create, the guest is
   * sent a link to the form, unless the stay is over. On update, the stored address is kept if this is absent
   * or null; another address is sent the link if the form is SENT and the stay is not over.
   */
  guestEmail?: string | null | undefined;
  /**
   * The client's own reference, such as the booking's id, of 1 to 255 UTF-16 code units. Stays that differ
   * only in it are two forms. On update, the stored one is kept if this is absent, and removed if it is null.
   */
  externalId?: string | null | undefined;
  /**
   * Update only. Cancels the form, for good: its status becomes CANCELLED, and its guest's address is
   * removed. The other properties are required and validated, but not applied.
   */
  cancelled?: true | undefined;
}

/** What `client.forms.list` filters by. All given filters must match. */
export interface FormFilters {
  /** Only return forms on this listing. A listing that is unknown or out of scope gives an empty page. */
  listingId?: string | undefined;
  /** Only return forms in this status. */
  status?:
    | "SENT"
    | "COMPLETED"
    | "ACCEPTED"
    | "REJECTED"
    | "VALIDATED"
    | "INVALIDATED"
    | "CHECKED_OUT"
    | "CANCELLED"
    | undefined;
  /** Only return forms with exactly this `externalId`. */
  externalId?: string | undefined;
  /**
   * Only return forms whose `updatedAt` is this instant or later. To poll for changes, send the latest
   * `updatedAt` in the pages of the read before, minus the time that it took, minus 60 seconds.
   */
  updatedSince?: Date | string | undefined;
  /** Only return forms whose `checkInDate` is this instant or later. */
  checkInFrom?: Date | string | undefined;
  /** Only return forms whose `checkInDate` is before this instant. Must be after checkInFrom. */
  checkInTo?: Date | string | undefined;
}
