import { randomUUID } from "node:crypto";
import type { Agent } from "node:http";
import { expect } from "vitest";
import type { FormBody } from "../../server/forms/schema.js";
import type { Fixture, GatewayProcess } from "../support/gateway-processes.js";
import { sendRequest, type TimedResponse } from "../support/http-client.js";
import { uniqueStay } from "../support/stays.js";

/** A create that can be sent more than once. */
export interface Create {
  body: FormBody;
  /** The Idempotency-Key. Without one, a retry is recognized by the body. */
  key?: string;
}

let guests = 0;
/** A create that equals no other and notifies a guest. */
export const uniqueCreate = (fixture: Fixture, { hasKey }: { hasKey: boolean }): Create => ({
  body: { ...uniqueStay(fixture.listing.id), guestEmail: `guest${++guests}@example.com` },
  ...(hasKey && { key: randomUUID() }),
});

/** Sends the create to one gateway. Rejects if the connection fails. */
export const sendCreate = (
  fixture: Fixture,
  { url }: Pick<GatewayProcess, "url">,
  { body, key }: Create,
  agent?: Agent,
): Promise<TimedResponse> =>
  sendRequest(`${url}/v1/forms`, fixture.key.key, {
    method: "POST",
    body,
    headers: key === undefined ? {} : { "Idempotency-Key": key },
    ...(agent && { agent }),
  });

/** Sends all creates concurrently, each to the next gateway in turn. */
export const sendConcurrently = (
  fixture: Fixture,
  gateways: GatewayProcess[],
  creates: Create[],
  agent?: Agent,
): Promise<TimedResponse[]> =>
  Promise.all(
    creates.map((create, index) =>
      sendCreate(fixture, gateways[index % gateways.length] as GatewayProcess, create, agent),
    ),
  );

export const isReplay = ({ headers }: TimedResponse) => headers["idempotent-replayed"] === "true";

interface StoredForm {
  id: string;
  pendingNotifications: number;
}

/** The forms in the database with the dates of this create. */
export async function findStoredForms(fixture: Fixture, { body }: Create): Promise<StoredForm[]> {
  const { rows } = await fixture.services.db.pool.query<StoredForm>(
    `SELECT f.id, (
       SELECT count(*)::int FROM notifications n WHERE n.form_id = f.id
     ) AS "pendingNotifications"
     FROM forms f
     WHERE f.listing_id = $1::uuid AND f.check_in_date = $2::timestamptz AND f.check_out_date = $3::timestamptz`,
    [body.listingId, body.checkInDate, body.checkOutDate],
  );
  return rows;
}

/** Asserts that the database has only the form in the response, with one pending notification. */
export async function expectExactlyOneForm(
  fixture: Fixture,
  create: Create,
  response: TimedResponse,
): Promise<void> {
  const { id } = response.json as { id: string };
  expect(await findStoredForms(fixture, create)).toEqual([{ id, pendingNotifications: 1 }]);
}
