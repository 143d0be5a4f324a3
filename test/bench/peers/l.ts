// Peer L: a minimal server on Fastify and pg, optimized for speed. With --plus it is peer L+.
import { randomUUID } from "node:crypto";
import Fastify, { type FastifyReply, type FastifyRequest } from "fastify";
import pg from "pg";
import { keysetValues, type ListIdentity } from "../../../server/resources/paging.js";
import { type Fields, FORM, jsonSchema, LISTING } from "../public.js";
import { addPromises } from "./l-plus.js";
import { SQL } from "./l-sql.js";
import { type CreateBody, hashKey, LISTS, newForm, publicStatus, readCursor, settings, toPage } from "./shared.js";

const TIMESTAMPTZ = 1184;

/** Converts a timestamptz in text format, in UTC, to ISO 8601 without a Date object. */
function toIso(text: string): string {
  // For example 2027-07-01 13:00:00.5+00: Postgres omits trailing zeros of the fraction.
  const fraction = text.length > 22 ? text.slice(20, -3) : "";
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${fraction.padEnd(3, "0")}Z`;
}

const pool = new pg.Pool({
  connectionString: settings.databaseUrl,
  max: 10,
  options: "-c timezone=UTC -c plan_cache_mode=force_generic_plan",
  types: {
    getTypeParser: (oid: number, format?: "text" | "binary") =>
      oid === TIMESTAMPTZ ? toIso : pg.types.getTypeParser(oid, format as "text"),
  } as pg.CustomTypesConfig,
});

async function query<Row extends object>(name: keyof typeof SQL, values: unknown[]): Promise<Row[]> {
  return (await pool.query<Row>({ name, text: SQL[name], values })).rows;
}

interface ApiKey {
  id: string;
  userId: string;
  mode: string;
}

declare module "fastify" {
  interface FastifyRequest {
    apiKey: ApiKey | null;
  }
}

const app = Fastify({ logger: false });
app.decorateRequest("apiKey", null);

const fail = (reply: FastifyReply, status: number, code: string) =>
  reply.code(status).send({ code, message: code, correlationId: randomUUID() });

async function authenticate(request: FastifyRequest, reply: FastifyReply) {
  const [apiKey] = await query<ApiKey>("KEY", [hashKey(request.headers.authorization)]);
  if (!apiKey) return fail(reply, 401, "UNAUTHENTICATED");
  request.apiKey = apiKey;
}

app.get("/readyz", async () => (await pool.query("SELECT")) && { status: "ok" });
if (process.argv.includes("--plus")) addPromises(app);

const uuid = { type: "string", pattern: "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$" };
const limit = { type: "integer", default: 50, minimum: 1, maximum: 100 };

interface Row {
  id: string;
  createdAt: string;
  /** Of a form. */
  status?: string;
}

const hideInternalStatus = (row: Row): Row => {
  if (row.status) row.status = publicStatus(row.status);
  return row;
};

function serve(path: string, fields: Fields, one: keyof typeof SQL, many: keyof typeof SQL, identity: ListIdentity) {
  const item = jsonSchema(fields);
  const params = { type: "object", properties: { id: uuid } };
  app.get<{ Params: { id: string } }>(
    `${path}/:id`,
    { onRequest: authenticate, schema: { params, response: { 200: item } } },
    async (request, reply) => {
      const [row] = await query<Row>(one, [request.apiKey?.userId, request.params.id]);
      return row ? hideInternalStatus(row) : fail(reply, 404, "RESOURCE_NOT_FOUND");
    },
  );
  const nextCursor = { type: "string", nullable: true };
  const page = { type: "object", properties: { items: { type: "array", items: item }, nextCursor } };
  const querystring = {
    type: "object",
    properties: { limit, cursor: { type: "string" } },
    additionalProperties: false,
  };
  app.get<{ Querystring: { limit: number; cursor?: string } }>(
    path,
    { onRequest: authenticate, schema: { querystring, response: { 200: page } } },
    async ({ query: { limit, cursor }, apiKey }) => {
      const position = keysetValues(readCursor(identity, cursor), limit + 1);
      const rows = await query<Row>(many, [apiKey?.userId, ...position]);
      for (const row of rows) hideInternalStatus(row);
      return toPage(rows, limit, identity);
    },
  );
}

serve("/v1/forms", FORM, "FORM", "FORMS", LISTS.forms);
serve("/v1/listings", LISTING, "LISTING", "LISTINGS", LISTS.listings);

const createForm = {
  body: {
    type: "object",
    required: ["listingId", "checkInDate", "checkOutDate", "numberOfGuests"],
    properties: {
      listingId: uuid,
      checkInDate: { type: "string", format: "date-time" },
      checkOutDate: { type: "string", format: "date-time" },
      numberOfGuests: { type: "integer", minimum: 1, maximum: 2_147_483_647 },
      guestEmail: { type: "string", format: "email", maxLength: 254, nullable: true },
    },
    additionalProperties: false,
  },
  response: { 201: jsonSchema(FORM) },
};

interface Created {
  answer: { id: string } | null;
  replayed: boolean;
  reused: boolean;
}

app.post<{ Body: CreateBody }>(
  "/v1/forms",
  { onRequest: authenticate, schema: createForm },
  async ({ apiKey, body, headers }, reply) => {
    if (apiKey?.mode !== "READ_WRITE") return fail(reply, 403, "FORBIDDEN");
    const form = newForm(body);
    if (!form) return fail(reply, 400, "VALIDATION_ERROR");
    const [created] = await query<Created>("CREATE", [
      ...[apiKey.userId, form.listingId, form.fingerprint, headers["idempotency-key"] ?? null, form.id, form.publicId],
      ...[form.checkInDate.toISOString(), form.checkOutDate.toISOString(), form.numberOfGuests, form.guestEmail],
      ...[apiKey.id, form.correlationId],
    ]);
    if (!created) return fail(reply, 404, "RESOURCE_NOT_FOUND");
    if (created.reused) return fail(reply, 422, "IDEMPOTENCY_KEY_REUSED");
    if (!created.answer) return fail(reply, 400, "VALIDATION_ERROR");
    reply.code(201).header("Location", `/v1/forms/${created.answer.id}`);
    if (created.replayed) reply.header("Idempotent-Replayed", "true");
    return created.answer;
  },
);

await app.listen({ port: settings.port, host: "127.0.0.1" });
process.once("SIGTERM", () => void app.close().then(() => pool.end()));
