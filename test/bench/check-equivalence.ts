import { randomUUID } from "node:crypto";
import type pg from "pg";
import type { Operation } from "./operations.js";
import { type BenchRequest, type BenchResponse, send } from "./requests.js";
import type { Server, ServerName } from "./servers.js";

const SAMPLES = 20;

/**
 * Throws unless all servers return the same bytes for every read, and L+ the same headers as the service. Returns the
 * number of requests compared.
 */
export async function checkSameReads(servers: readonly Server[], operations: readonly Operation[]): Promise<number> {
  let compared = 0;
  for (const { id, requests, writes } of operations) {
    if (writes) continue;
    for (const request of requests.slice(0, SAMPLES)) {
      const responses = await Promise.all(servers.map((server) => send(server, request)));
      const [first] = responses;
      for (const response of responses) {
        if (response.status !== 200 || response.text !== first?.text || response.type !== first.type) {
          throw new Error(`${id}: ${request.target} has different responses:\n${JSON.stringify(responses, null, 1)}`);
        }
      }
      checkSameHeaders(servers, responses);
      compared++;
    }
  }
  return compared;
}

function checkSameHeaders(servers: readonly Server[], responses: readonly BenchResponse[]): void {
  const headersOf = (name: ServerName) => responses[servers.findIndex((server) => server.name === name)]?.headers;
  const [own, plus] = [headersOf("service"), headersOf("L+")];
  if (own && plus && own.join() !== plus.join())
    throw new Error(`Headers differ: the service sends ${own.join(", ")}; L+ sends ${plus.join(", ")}`);
}

/**
 * Creates a form on each server. Throws unless all servers replay it with the same bytes, with and without the
 * Idempotency-Key, and the rows that each server wrote are equivalent.
 */
export async function checkSameCreates(
  servers: readonly Server[],
  client: pg.Client,
  request: BenchRequest,
): Promise<void> {
  const writtenRows: unknown[] = [];
  for (const [turn, creator] of servers.entries()) {
    const n = String(turn);
    const body = request.body?.replaceAll("{n}", `-${n}`).replaceAll("{t}", `59:59.99${n}`) ?? "";
    const create = { ...request, body, idempotencyKey: randomUUID() };
    const created = await send(creator, create);
    if (created.status !== 201 || created.replayed) throw differenceError(creator.name, created);
    const { id } = JSON.parse(created.text) as { id: string };
    writtenRows.push(await readRows(client, id));
    for (const server of servers) {
      for (const retry of [create, { ...create, idempotencyKey: undefined }]) {
        const response = await send(server, retry);
        if (response.status !== 201 || !response.replayed || response.text !== created.text) {
          throw differenceError(`${server.name} after ${creator.name}`, { created, response });
        }
      }
      const other = body.replace('"numberOfGuests":2', '"numberOfGuests":1');
      const reused = await send(server, { ...create, body: other });
      if (reused.status !== 422) throw differenceError(server.name, reused);
    }
  }
  if (new Set(writtenRows.map((rows) => JSON.stringify(rows))).size !== 1)
    throw differenceError("rows written", writtenRows);
}

const differenceError = (what: string, details: unknown) =>
  new Error(`Creates differ (${what}):\n${JSON.stringify(details, null, 1)}`);

/** The rows that a create wrote, without random values and times. */
async function readRows(client: pg.Client, formId: string): Promise<unknown> {
  const { rows } = await client.query(
    `SELECT f.listing_id, f.status, length(f.public_id), f.check_out_date, f.number_of_guests, f.number_of_vehicles,
       f.number_of_pets, length(f.guest_email) AS sealed, length(f.fingerprint) AS signed,
       c.holder_id, c.fingerprint = f.fingerprint AND c.current_fingerprint = f.fingerprint AS bound,
       c.answer - '{id,publicId,createdAt,checkInDate}'::text[] AS answer, c.answer ->> 'id' = f.id::text AS own,
       (SELECT json_agg(k.holder_id) FROM idempotency_keys k WHERE k.form_id = f.id) AS keys,
       (SELECT json_agg(json_build_array(a.actor, a.actor_id, a.action, a.details, a.correlation_id IS NOT NULL))
        FROM audit_entries a WHERE a.subject_id = f.id) AS entries,
       (SELECT json_agg(json_build_array(n.kind, n.tenant_id, n.state, n.attempts)) FROM emails n WHERE n.form_id = f.id) AS emails
     FROM forms f JOIN creations c ON c.form_id = f.id WHERE f.id = $1`,
    [formId],
  );
  return rows;
}
