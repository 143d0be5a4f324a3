// Written by `npm run generate`.
import type { FormStatus, FormV1 } from "./schema.js";

/** When a change was made, and when it was sent. */
interface Times {
  /**
   * When the change was made, ISO 8601 in UTC. Of two changes of a form, the later one does not have an
   * earlier timestamp. `data.form` may be newer.
   */
  timestamp: string;
  /**
   * When this request was sent, ISO 8601 in UTC. Of two requests about a form, the one with the later
   * `sentAt` has the newer `data.form`.
   */
  sentAt: string;
}

/** A form was created. Replays of a create send no event. */
export interface FormCreatedEvent extends Times {
  /** Type of the event. */
  type: "form.created";
  /** The form, and what changed. */
  data: {
    /** The form as it was when this request was sent. */
    form: FormV1;
  };
}

/** The stay of a form was updated, on the same listing. */
export interface FormUpdatedEvent extends Times {
  /** Type of the event. */
  type: "form.updated";
  /** The form, and what changed. */
  data: {
    /** The form as it was when this request was sent. */
    form: FormV1;
    /** Names of the changed fields. `guestEmail` stands for the address, which is never sent. */
    fields: string[];
  };
}

/** A form was updated with another listing. Other fields may have changed too. */
export interface FormMovedEvent extends Times {
  /** Type of the event. */
  type: "form.moved";
  /** The form, and what changed. */
  data: {
    /** The form as it was when this request was sent. */
    form: FormV1;
    /** Listing the form was on before; null if it is not in the scope of the endpoint's owner. */
    previousListingId: string | null;
    /** Names of the changed fields. `guestEmail` stands for the address, which is never sent. */
    fields: string[];
  };
}

/** The status of a form was changed. */
export interface FormStatusChangedEvent extends Times {
  /** Type of the event. */
  type: "form.status_changed";
  /** The form, and what changed. */
  data: {
    /** The form as it was when this request was sent. */
    form: FormV1;
    /** Status before the change. */
    from: FormStatus;
    /** Status after the change. `form.status` may be newer. */
    to: FormStatus;
  };
}

/** A form was cancelled. It does not change anymore. */
export interface FormCancelledEvent extends Times {
  /** Type of the event. */
  type: "form.cancelled";
  /** The form, and what changed. */
  data: {
    /** The form as it was when this request was sent. */
    form: FormV1;
    /** Status before it was cancelled. */
    from: FormStatus;
  };
}

/** The number of vehicles or pets of a form was changed. */
export interface FormPartyChangedEvent extends Times {
  /** Type of the event. */
  type: "form.party_changed";
  /** The form, and what changed. */
  data: {
    /** The form as it was when this request was sent. */
    form: FormV1;
    /** Names of the changed fields. `guestEmail` stands for the address, which is never sent. */
    fields: string[];
  };
}

/** Sent on request, to test an endpoint. */
export interface WebhookTestEvent extends Times {
  /** Type of the event. */
  type: "webhook.test";
  /** When the test was requested, ISO 8601 in UTC. */
  timestamp: string;
  /** Empty. */
  data: Record<string, never>;
}

/** The events that this version of the SDK knows, discriminated by `type`. Later versions of the service may send others. */
export type WebhookEvent =
  | FormCreatedEvent
  | FormUpdatedEvent
  | FormMovedEvent
  | FormStatusChangedEvent
  | FormCancelledEvent
  | FormPartyChangedEvent
  | WebhookTestEvent;
