import { randomUUID } from "node:crypto";
import type { Agent } from "node:http";
import { expect } from "vitest";
import type { FormBody } from "../../server/forms/schema.js";
import { type Answer, call, newStay } from "../fleet/client.js";
import type { Host, World } from "../fleet/fleet.js";

/** A create as a client sends it, and sends it again. */
export interface Create {
  body: FormBody;
  /** The Idempotency-Key; without one, the body alone tells a repeat. */
  key?: string;
}

let guests = 0;
/** A create equal to no other, with a guest to notify. */
export const newCreate = (world: World, { keyed }: { keyed: boolean }): Create => ({
  body: { ...newStay(world.listing.id), guestEmail: `guest${++guests}@example.com` },
  ...(keyed && { key: randomUUID() }),
});

/** Sends it to one gateway; rejects where the connection fails. */
export const send = (
  world: World,
  { url }: Pick<Host, "url">,
  { body, key }: Create,
  agent?: Agent,
): Promise<Answer> =>
  call(`${url}/v1/forms`, world.key.key, {
    method: "POST",
    body,
    headers: key === undefined ? {} : { "Idempotency-Key": key },
    ...(agent && { agent }),
  });

/** Sends all at the same moment, to the gateways in turn. */
export const sendAtOnce = (world: World, hosts: Host[], creates: Create[], agent: Agent): Promise<Answer[]> =>
  Promise.all(creates.map((create, at) => send(world, hosts[at % hosts.length] as Host, create, agent)));

export const isReplay = ({ headers }: Answer) => headers["idempotent-replayed"] === "true";

interface Stored {
  id: string;
  jobs: number;
}

/** The forms that have the body's stay, and how many notifications wait for each. */
export async function stored(world: World, { body }: Create): Promise<Stored[]> {
  const { rows } = await world.services.db.pool.query<Stored>(
    `SELECT f.id, (
       SELECT count(*)::int FROM notifications n WHERE n.form_id = f.id
     ) AS jobs
     FROM forms f
     WHERE f.listing_id = $1::uuid AND f.check_in_date = $2::timestamptz AND f.check_out_date = $3::timestamptz`,
    [body.listingId, body.checkInDate, body.checkOutDate],
  );
  return rows;
}

/** Holds the database to the one form that was answered, and one notification of it that waits. */
export async function expectOneForm(world: World, create: Create, answer: Answer): Promise<void> {
  const { id } = answer.json as { id: string };
  expect(await stored(world, create)).toEqual([{ id, jobs: 1 }]);
}
