import { randomUUID } from "node:crypto";
import type pg from "pg";
import type { Database } from "./database.js";
import { undoCreates } from "./fill.js";
import { type BenchRequest, headersOf, withSerial } from "./load.js";
import { type Operation, writes } from "./operations.js";
import type { Server } from "./servers.js";

/** Headers of HTTP itself, which Node.js does not always send as Fastify does. */
const TRANSPORT = new Set(["date", "connection", "keep-alive", "content-length", "transfer-encoding"]);

async function send({ url }: Server, request: BenchRequest) {
  const { target, body } = request;
  const response = await fetch(url + target, { headers: headersOf(request), ...(body && { method: "POST", body }) });
  const replay = response.headers.has("idempotent-replayed") ? " replay" : "";
  const text = `${response.status} ${response.headers.get("content-type")} ${await response.text()}${replay}`;
  return { text, headers: [...response.headers.keys()].filter((header) => !TRANSPORT.has(header)).join() };
}

/** Sends a request to all servers. Throws unless the first part of their responses is this one, or that of the first. */
async function assertSame(
  servers: readonly Server[],
  request: BenchRequest,
  part: "text" | "headers",
  expected?: string,
) {
  const responses: string[] = [];
  for (const server of servers) responses.push((await send(server, request))[part]);
  if (responses.some((response) => response !== (expected ?? responses[0])))
    throw new Error(`${request.target}: the servers differ:\n${[expected, ...responses].join("\n").slice(0, 20_000)}`);
}

/**
 * Throws unless all servers return the same bytes for every read and created form, and all except T send the same headers, replay
 * each other's creates and write equivalent rows.
 */
export async function assertEquivalent(servers: readonly Server[], { client }: Database, operations: Operation[]) {
  const promising = servers.filter(({ name }) => name !== "T");
  for (const { requests } of operations.filter((operation) => !writes(operation))) {
    for (const request of requests.slice(0, 20)) await assertSame(servers, request, "text");
    for (const request of requests.slice(0, 1)) await assertSame(promising, request, "headers");
  }
  // An earlier run may have been interrupted.
  await undoCreates(client);
  let serial = 0;
  for (const request of operations.find(({ id }) => id === "create")?.requests.slice(0, 2) ?? []) {
    const rows = new Set<string>();
    for (const creator of servers) {
      const create = withSerial(request, serial++);
      const { text } = await send(creator, create);
      const id = text.match(/"id":"(.+?)"/)?.[1] ?? text;
      await assertSame(servers, { key: request.key, target: `/v1/forms/${id}` }, "text", text.replace(/^201/, "200"));
      if (!promising.includes(creator)) continue;
      for (const idempotencyKey of [create.idempotencyKey ?? "", randomUUID()])
        await assertSame(promising, { ...create, idempotencyKey }, "text", `${text} replay`);
      rows.add(JSON.stringify(await readRows(client, id)));
    }
    if (rows.size > 1) throw new Error(`The servers write other rows:\n${[...rows].join("\n")}`);
  }
  await undoCreates(client);
}

/** Columns and fields with random values or times. */
const VARYING = `'{id,publicId,createdAt,numberOfGuests,public_id,created_at,number_of_guests,guest_email,fingerprint,form_id,
  current_fingerprint,secret_id,answer,key,retention_starts_at,at,subject_id,correlation_id,next_attempt_at}'::text[]`;

/** The rows that a create wrote, without what varies. */
async function readRows(client: pg.Client, formId: string): Promise<unknown> {
  const rowsOf = (table: string, column: string) =>
    `(SELECT json_agg(to_jsonb(t) - ${VARYING}) FROM ${table} t WHERE t.${column} = $1) AS ${table}`;
  const { rows } = await client.query(
    `SELECT ${rowsOf("forms", "id")}, ${rowsOf("creations", "form_id")}, ${rowsOf("idempotency_keys", "form_id")},
       ${rowsOf("audit_entries", "subject_id")}, ${rowsOf("emails", "form_id")}, c.answer - ${VARYING} AS answer,
       length(f.guest_email), f.fingerprint = c.fingerprint AS same, c.current_fingerprint = c.fingerprint AS current
     FROM forms f JOIN creations c ON c.form_id = f.id WHERE f.id = $1`,
    [formId],
  );
  return rows;
}
