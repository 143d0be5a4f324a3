import { randomUUID } from "node:crypto";
import type { FormBody } from "../../server/forms/schema.js";
import type { Fixture, GatewayProcess } from "./gateway-processes.js";
import { sendRequest, type TimedResponse } from "./http-client.js";
import { uniqueStay } from "./stays.js";

/** A create that can be sent more than once. */
export interface Create {
  body: FormBody;
  /** The Idempotency-Key. */
  key: string;
}

let guests = 0;
/** A create that equals no other and notifies a guest. */
export const uniqueCreate = ({ listing }: Fixture): Create => ({
  body: { ...uniqueStay(listing.id), guestEmail: `guest${++guests}@example.com` },
  key: randomUUID(),
});

/** Sends the create to one gateway. Rejects if the connection fails. */
export const sendCreate = (fixture: Fixture, { url }: GatewayProcess, { body, key }: Create): Promise<TimedResponse> =>
  sendRequest(`${url}/v1/forms`, fixture.key.key, {
    method: "POST",
    body,
    headers: { "Idempotency-Key": key },
  });

/** The Message-ID of the guest's email. */
export const messageIdOf = (formId: string) => `<form-${formId}@example.com>`;
