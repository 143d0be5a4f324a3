// A minimal server on Fastify and pg, optimized for speed. It shares only the code that makes the bytes equal: cursors,
// fingerprints and sealed emails.
import { createHash, randomUUID } from "node:crypto";
import Fastify, { type FastifyReply, type FastifyRequest } from "fastify";
import { nanoid } from "nanoid";
import pg from "pg";
import { fingerprints } from "../../../server/forms/idempotency.js";
import { decodeCursor, encodeCursor, keysetValues, type ListIdentity } from "../../../server/paging.js";
import { deriveKeyring, seal } from "../../../server/secrets.js";
import { canonicalEmail, parseInstant } from "../../../server/values.js";
import * as schemas from "./l-schemas.js";
import * as sql from "./l-sql.js";

const { DATABASE_URL, APP_SECRETS = "", PORT } = process.env;
const keyring = deriveKeyring([APP_SECRETS]);

const TIMESTAMPTZ = 1184;

/** Converts a timestamptz in text format, in UTC, to ISO 8601 without a Date object. */
function toIso(text: string): string {
  // For example 2027-07-01 13:00:00.5+00: Postgres omits trailing zeros of the fraction.
  const fraction = text.length > 22 ? text.slice(20, -3) : "";
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${fraction.padEnd(3, "0")}Z`;
}

const pool = new pg.Pool({
  connectionString: DATABASE_URL,
  max: 10,
  options: "-c timezone=UTC -c plan_cache_mode=force_generic_plan",
  types: {
    getTypeParser: (oid: number, format?: "text" | "binary") =>
      oid === TIMESTAMPTZ ? toIso : pg.types.getTypeParser(oid, format as "text"),
  } as pg.CustomTypesConfig,
});

async function query<Row extends object>(name: string, text: string, values: unknown[]): Promise<Row[]> {
  return (await pool.query<Row>({ name, text, values })).rows;
}

interface ApiKey {
  id: string;
  userId: string;
  mode: string;
}

declare module "fastify" {
  interface FastifyRequest {
    apiKey: ApiKey;
  }
}

export const app = Fastify({ logger: false });
app.decorateRequest("apiKey", null as unknown as ApiKey);

const fail = (reply: FastifyReply, status: number, code: string) =>
  reply.code(status).send({ code, message: code, correlationId: randomUUID() });

async function authenticate(request: FastifyRequest, reply: FastifyReply) {
  const key = request.headers.authorization?.slice("Bearer ".length) ?? "";
  const [apiKey] = await query<ApiKey>("key", sql.KEY, [createHash("sha256").update(key).digest()]);
  if (!apiKey) return fail(reply, 401, "UNAUTHENTICATED");
  request.apiKey = apiKey;
}

app.get("/readyz", async () => (await pool.query("SELECT")) && { status: "ok" });

const PUBLIC = new Set(schemas.STATUSES);

interface FormRow {
  id: string;
  status: string;
  createdAt: string;
}

const hideInternalStatus = (row: FormRow): FormRow => {
  if (!PUBLIC.has(row.status)) row.status = "UNKNOWN";
  return row;
};

app.get<{ Params: { id: string } }>(
  "/v1/forms/:id",
  { onRequest: authenticate, schema: schemas.fetchForm },
  async (request, reply) => {
    const values = [request.apiKey.userId, request.params.id];
    const [row] = await query<FormRow>("form", sql.FORM, values);
    return row ? hideInternalStatus(row) : fail(reply, 404, "RESOURCE_NOT_FOUND");
  },
);

app.get<{ Params: { id: string } }>(
  "/v1/listings/:id",
  { onRequest: authenticate, schema: schemas.fetchListing },
  async (request, reply) => {
    const [row] = await query("listing", sql.LISTING, [request.apiKey.userId, request.params.id]);
    return row ?? fail(reply, 404, "RESOURCE_NOT_FOUND");
  },
);

interface ListQuery {
  limit: number;
  cursor?: string;
  listingId?: string;
}

/** Builds the page; `rows` has one row more than `limit` if another page follows. */
function toPage<Row extends { id: string; createdAt: string }>(
  rows: Row[],
  limit: number,
  identity: ListIdentity,
) {
  if (rows.length <= limit) return { items: rows, nextCursor: null };
  rows.length = limit;
  const { id, createdAt } = rows[limit - 1] as Row;
  const nextCursor = encodeCursor(keyring.cursor, identity, { createdAt: Date.parse(createdAt), id });
  return { items: rows, nextCursor };
}

const clamp = (limit: number) => Math.min(Math.max(limit, 1), 100);

app.get<{ Querystring: ListQuery }>(
  "/v1/forms",
  { onRequest: authenticate, schema: schemas.listForms },
  async ({ query: { limit, cursor, listingId }, apiKey }) => {
    const identity: ListIdentity = { list: "forms", listingId };
    const take = clamp(limit);
    const after = cursor === undefined ? undefined : decodeCursor(keyring.cursor, identity, cursor);
    const position = keysetValues(after, take + 1);
    const rows =
      listingId === undefined
        ? await query<FormRow>("forms", sql.FORMS, [apiKey.userId, ...position])
        : await query<FormRow>("listing-forms", sql.FORMS_ON_LISTING, [
            apiKey.userId,
            ...position,
            listingId,
          ]);
    for (const row of rows) hideInternalStatus(row);
    return toPage(rows, take, identity);
  },
);

app.get<{ Querystring: ListQuery }>(
  "/v1/listings",
  { onRequest: authenticate, schema: schemas.listListings },
  async ({ query: { limit, cursor }, apiKey }) => {
    const identity: ListIdentity = { list: "listings" };
    const take = clamp(limit);
    const after = cursor === undefined ? undefined : decodeCursor(keyring.cursor, identity, cursor);
    const position = keysetValues(after, take + 1);
    const rows = await query<{ id: string; createdAt: string }>("listings", sql.LISTINGS, [
      apiKey.userId,
      ...position,
    ]);
    return toPage(rows, take, identity);
  },
);

interface CreateBody {
  listingId: string;
  checkInDate: string;
  checkOutDate: string;
  numberOfGuests: number;
  guestEmail?: string | null;
}

interface Created {
  answer: { id: string } | null;
  replayed: boolean;
  reused: boolean;
}

const UNIQUE_VIOLATION = "23505";

/** Creates in one statement. On a race of equal creates, a unique index rejects one, which is retried and replays. */
async function create(values: unknown[]): Promise<Created | undefined> {
  for (let tries = 1; ; tries++) {
    try {
      return (await query<Created>("create", sql.CREATE, values))[0];
    } catch (error) {
      if ((error as pg.DatabaseError).code !== UNIQUE_VIOLATION || tries === 3) throw error;
    }
  }
}

app.post<{ Body: CreateBody }>(
  "/v1/forms",
  { onRequest: authenticate, schema: schemas.createForm },
  async (request, reply) => {
    const { apiKey, body } = request;
    if (apiKey.mode !== "READ_WRITE") return fail(reply, 403, "FORBIDDEN");
    const checkIn = parseInstant(body.checkInDate) ?? Number.NaN;
    const checkOut = parseInstant(body.checkOutDate) ?? Number.NaN;
    if (!(checkOut > checkIn)) return fail(reply, 400, "VALIDATION_ERROR");
    const guestEmail = body.guestEmail ? canonicalEmail(body.guestEmail) : null;
    const listingId = body.listingId.toLowerCase();
    const canonical = { ...body, listingId, checkInDate: checkIn, checkOutDate: checkOut, guestEmail };
    const id = randomUUID();
    const created = await create([
      apiKey.userId,
      listingId,
      fingerprints(keyring.fingerprint, canonical)[0],
      request.headers["idempotency-key"] ?? null,
      id,
      nanoid(),
      new Date(checkIn).toISOString(),
      new Date(checkOut).toISOString(),
      body.numberOfGuests,
      guestEmail && seal(keyring.email, guestEmail, id),
      apiKey.id,
      randomUUID(),
    ]);
    if (!created) return fail(reply, 404, "RESOURCE_NOT_FOUND");
    if (created.reused) return fail(reply, 422, "IDEMPOTENCY_KEY_REUSED");
    if (!created.answer) return fail(reply, 400, "VALIDATION_ERROR");
    reply.code(201).header("Location", `/v1/forms/${created.answer.id}`);
    if (created.replayed) reply.header("Idempotent-Replayed", "true");
    return created.answer;
  },
);

export async function listen(): Promise<void> {
  await app.listen({ port: Number(PORT), host: "127.0.0.1" });
  process.once("SIGTERM", () => void app.close().then(() => pool.end()));
}
