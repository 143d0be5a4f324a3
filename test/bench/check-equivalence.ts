import { randomUUID } from "node:crypto";
import type pg from "pg";
import type { Request } from "./wrk.js";
import type { Operation } from "./operation.js";
import type { Server } from "./servers.js";

const SAMPLES = 20;

/** Throws unless all servers answer each of the operations' reads with the same bytes. */
export async function compareReads(
  servers: readonly Server[],
  operations: readonly Operation[],
): Promise<number> {
  let compared = 0;
  for (const { id, requests, writes } of operations) {
    if (writes) continue;
    for (const request of requests.slice(0, SAMPLES)) {
      const answers = await Promise.all(servers.map((server) => send(server, request)));
      const [first] = answers;
      for (const answer of answers) {
        if (answer.status !== 200 || answer.text !== first?.text || answer.type !== first.type) {
          throw new Error(
            `${id}: ${request.target} is not answered alike:\n${JSON.stringify(answers, null, 1)}`,
          );
        }
      }
      compared++;
    }
  }
  return compared;
}

/**
 * Each server creates a form, which all then replay with the same bytes, by the Idempotency-Key and without; and the
 * rows that each has written are alike. Throws where anything differs.
 */
export async function compareCreates(
  servers: readonly Server[],
  client: pg.Client,
  request: Request,
): Promise<void> {
  const written: unknown[] = [];
  for (const [turn, creator] of servers.entries()) {
    const n = String(turn);
    const body = request.body?.replaceAll("{n}", `-${n}`).replaceAll("{t}", `59:59.99${n}`) ?? "";
    const create = { ...request, body, idempotencyKey: randomUUID() };
    const created = await send(creator, create);
    if (created.status !== 201 || created.replayed) throw different(creator.name, created);
    const { id } = JSON.parse(created.text) as { id: string };
    written.push(await rowsOf(client, id));
    for (const server of servers) {
      for (const repeat of [create, { ...create, idempotencyKey: undefined }]) {
        const answer = await send(server, repeat);
        if (answer.status !== 201 || !answer.replayed || answer.text !== created.text) {
          throw different(`${server.name} after ${creator.name}`, { created, answer });
        }
      }
      const other = body.replace('"numberOfGuests":2', '"numberOfGuests":1');
      const reused = await send(server, { ...create, body: other });
      if (reused.status !== 422) throw different(server.name, reused);
    }
  }
  if (new Set(written.map((rows) => JSON.stringify(rows))).size !== 1)
    throw different("rows written", written);
}

const different = (what: string, found: unknown) =>
  new Error(`Creates differ (${what}):\n${JSON.stringify(found, null, 1)}`);

interface Answer {
  status: number;
  type: string | null;
  replayed: boolean;
  text: string;
}

async function send(
  { url }: Server,
  { target, key, body, idempotencyKey }: Request & { idempotencyKey?: string | undefined },
): Promise<Answer> {
  const response = await fetch(url + target, {
    headers: {
      Authorization: `Bearer ${key}`,
      ...(body && { "Content-Type": "application/json" }),
      ...(idempotencyKey && { "Idempotency-Key": idempotencyKey }),
    },
    ...(body && { method: "POST", body }),
  });
  return {
    status: response.status,
    type: response.headers.get("content-type"),
    replayed: response.headers.has("idempotent-replayed"),
    text: await response.text(),
  };
}

/** All that a create leaves behind, with what is random or of the moment reduced to its kind. */
async function rowsOf(client: pg.Client, formId: string): Promise<unknown> {
  const { rows } = await client.query(
    `SELECT f.listing_id, f.status, length(f.public_id), f.check_out_date, f.number_of_guests, f.number_of_vehicles,
       f.number_of_pets, length(f.guest_email) AS sealed, length(f.fingerprint) AS signed,
       c.holder_id, c.fingerprint = f.fingerprint AND c.current_fingerprint = f.fingerprint AS bound,
       c.answer - '{id,publicId,createdAt,checkInDate}'::text[] AS answer, c.answer ->> 'id' = f.id::text AS own,
       (SELECT json_agg(k.holder_id) FROM idempotency_keys k WHERE k.form_id = f.id) AS keys,
       (SELECT json_agg(json_build_array(a.actor, a.actor_id, a.action, a.details, a.correlation_id IS NOT NULL))
        FROM audit_entries a WHERE a.subject_id = f.id) AS entries,
       (SELECT json_agg(json_build_array(n.kind, n.state, n.attempts)) FROM notifications n WHERE n.form_id = f.id) AS jobs
     FROM forms f JOIN creations c ON c.form_id = f.id WHERE f.id = $1`,
    [formId],
  );
  return rows;
}
