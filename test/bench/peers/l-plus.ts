// Peer L+: written by hand for speed, on Fastify and pg, with what the service promises for every request: correlation id,
// headers, log line, rate limit. The key is looked up on each request, and a create is one statement.
import { createHash } from "node:crypto";
import Fastify, { type FastifyReply, type FastifyRequest } from "fastify";
import pg from "pg";
import pino from "pino";
import { UPDATED_AT } from "../../../server/forms/queries.js";
import { createInput, formV1, projectStatus } from "../../../server/forms/schema.js";
import { keysetValues } from "../../../server/resources/paging.js";
import { nullFields, selectList } from "../../../server/resources/resource.js";
import { timeOrderedUuid } from "../../../server/values.js";
import { hashBearer, newForm, readCursor, settings, toPage } from "./shared.js";

/** Memberships of the holder $1. */
const OWN_MEMBERSHIP = "m.user_id = $1::uuid AND m.role IN ('OWNER', 'WRITER')";

/** No server of the benchmark has a page for guests. */
const FORM_COLUMNS = selectList(formV1, "f", { updatedAt: UPDATED_AT, guestUrl: "NULL" });

const SQL = {
  key: `
    SELECT id, user_id AS "userId", mode FROM api_keys
    WHERE hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`,
  form: `
    SELECT ${FORM_COLUMNS} FROM forms f
    WHERE f.id = $2::uuid AND EXISTS (SELECT FROM memberships m WHERE ${OWN_MEMBERSHIP} AND m.listing_id = f.listing_id)`,
  forms: `
    SELECT ${FORM_COLUMNS}
    FROM (
      SELECT s.created_at, s.form_id FROM scoped_forms s
      WHERE s.user_id = $1::uuid AND (s.created_at, s.form_id) > ($2::timestamptz, $3::uuid)
      ORDER BY s.created_at, s.form_id
      LIMIT $4::int
    ) mine
    JOIN forms f ON f.id = mine.form_id
    ORDER BY mine.created_at, mine.form_id`,
  // $1 holder, $2 listing, $3 fingerprint, $4 Idempotency-Key, $5 id, $6 public id, $7 and $8 dates, $9 guests, $10 sealed email,
  // $11 key id, $12 correlation id, $13 answer, $14 external id. Returns no row if the listing is out of scope, and a null id if its
  // rules reject the form.
  create: `
    WITH listing AS MATERIALIZED (
      SELECT l.active AND ($9::int <= l.max_people_in_listing) IS NOT FALSE AS takes
      FROM memberships m JOIN listings l ON l.id = m.listing_id
      WHERE ${OWN_MEMBERSHIP} AND m.listing_id = $2::uuid
    ), bound AS MATERIALIZED (
      SELECT f.id, f.created_at, c.answer, c.fingerprint <> $3::bytea AS reused
      FROM idempotency_keys k JOIN creations c ON c.form_id = k.form_id JOIN forms f ON f.id = c.form_id
      WHERE k.holder_id = $1::uuid AND k.key = $4::text
    ), earlier AS MATERIALIZED (
      SELECT * FROM bound
      UNION ALL
      SELECT f.id, f.created_at, c.answer, false FROM creations c JOIN forms f ON f.id = c.form_id
      WHERE c.holder_id = $1::uuid AND c.current_fingerprint = $3::bytea AND NOT EXISTS (SELECT FROM bound)
    ), form AS (
      INSERT INTO forms AS f
        (id, public_id, listing_id, check_in_date, check_out_date, number_of_guests, guest_email, fingerprint, external_id)
      SELECT $5::uuid, $6::text, $2::uuid, $7::timestamptz, $8::timestamptz, $9::int, $10::bytea, $3::bytea, $14::text
      FROM listing WHERE takes AND NOT EXISTS (SELECT FROM earlier)
      RETURNING f.id, f.created_at
    ), creation AS (
      INSERT INTO creations (form_id, holder_id, fingerprint, current_fingerprint, answer, secret_id)
      SELECT id, $1::uuid, $3::bytea, $3::bytea, $13::jsonb, 'secret' FROM form
    ), binding AS (
      INSERT INTO idempotency_keys (holder_id, key, form_id, retention_starts_at)
      SELECT $1::uuid, $4::text, id, greatest($8::timestamptz, now())
      FROM (SELECT id FROM form UNION ALL SELECT id FROM earlier) now
      WHERE $4::text IS NOT NULL AND NOT EXISTS (SELECT FROM bound)
    ), entry AS (
      INSERT INTO audit_entries (actor, actor_id, action, subject_id, correlation_id, details)
      SELECT 'key', $11::uuid, 'form.created', id, $12::uuid, jsonb_build_object('listingId', $2::uuid) FROM form
    ), invitation AS (
      INSERT INTO emails (kind, form_id, tenant_id, check_in_date, correlation_id)
      SELECT 'invitation', form.id, coalesce(owner.id, $2::uuid), $7::timestamptz, $12::uuid
      FROM form LEFT JOIN LATERAL (
        SELECT u.id FROM memberships m JOIN users u ON u.id = m.user_id
        WHERE m.listing_id = $2::uuid AND m.role = 'OWNER' ORDER BY u.created_at, u.id LIMIT 1
      ) owner ON true
      WHERE $10::bytea IS NOT NULL
    )
    SELECT coalesce(earlier.id, form.id) AS id, coalesce(earlier.answer, $13::jsonb) AS answer,
      coalesce(earlier.created_at, form.created_at) AS "createdAt",
      earlier.id IS NOT NULL AS replayed, coalesce(earlier.reused, false) AS reused
    FROM listing LEFT JOIN earlier ON true LEFT JOIN form ON true`,
};

const TIMESTAMPTZ = 1184;

/** Converts a timestamptz in text format, in UTC: 2027-07-01 13:00:00.5+00. Postgres omits trailing zeros of the fraction. */
const toIso = (text: string) => `${text.slice(0, 10)}T${text.slice(11, 19)}.${text.slice(20, -3).padEnd(3, "0")}Z`;

const pool = new pg.Pool({
  connectionString: settings.databaseUrl,
  max: 10,
  options: "-c timezone=UTC -c plan_cache_mode=force_generic_plan -c jit=off",
  types: {
    getTypeParser: (oid: number, format?: "text" | "binary") =>
      oid === TIMESTAMPTZ ? toIso : pg.types.getTypeParser(oid, format as "text"),
  } as pg.CustomTypesConfig,
});

async function query<Row extends object>(name: keyof typeof SQL, values: unknown[]): Promise<Row[]> {
  return (await pool.query<Row>({ name, text: SQL[name], values })).rows;
}

type ApiKey = Record<"id" | "userId" | "mode", string>;

declare module "fastify" {
  interface FastifyRequest {
    apiKey: ApiKey | null;
    correlationId: string;
    began: number;
  }
}

const app = Fastify({ logger: false });
app.decorateRequest("apiKey", null);
app.decorateRequest("correlationId", "");
app.decorateRequest("began", 0);
app.get("/readyz", async () => (await pool.query("SELECT")) && { status: "ok" });

const fail = (reply: FastifyReply, status: number, code: string) =>
  reply.code(status).send({ code, message: code, correlationId: reply.request.correlationId });

const HEADERS = {
  "Content-Security-Policy": "default-src 'none';frame-ancestors 'none'",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "Strict-Transport-Security": "max-age=31536000; includeSubDomains",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Cache-Control": "no-store",
};

app.addHook("onRequest", (request, reply, done) => {
  request.began = performance.now();
  request.correlationId = timeOrderedUuid();
  reply.headers(HEADERS).header("X-Correlation-Id", request.correlationId);
  done();
});

const log = pino(pino.destination({ fd: 2, sync: false }));

app.addHook("onResponse", ({ correlationId, apiKey, method, routeOptions, began }, { statusCode: status }, done) => {
  const ms = Math.round((performance.now() - began) * 100) / 100;
  const of = { correlationId, keyId: apiKey?.id, userId: apiKey?.userId };
  log.info({ ...of, method, route: routeOptions.url, status, ms }, "request");
  done();
});

async function authenticate(request: FastifyRequest, reply: FastifyReply) {
  const [apiKey] = await query<ApiKey>("key", [hashBearer(request.headers.authorization)]);
  if (!apiKey) return fail(reply, 401, "UNAUTHENTICATED");
  request.apiKey = apiKey;
  return limitRate(apiKey.id, reply);
}

const { rateLimit } = settings;
const WINDOW_MS = 60_000;
const POLICY = `"${rateLimit}-in-1min"`;
const windows = new Map<string, { hits: number; endsAt: number; policy: string }>();

function limitRate(keyId: string, reply: FastifyReply) {
  const now = Date.now();
  let window = windows.get(keyId);
  if (!window || window.endsAt <= now) {
    const partition = btoa(createHash("sha256").update(keyId).digest("hex").slice(0, 12));
    window = { hits: 0, endsAt: now + WINDOW_MS, policy: `${POLICY}; q=${rateLimit}; w=60; pk=:${partition}:` };
    windows.set(keyId, window);
  }
  const left = rateLimit - ++window.hits;
  const secondsLeft = Math.ceil((window.endsAt - now) / 1000);
  reply.header("RateLimit", `${POLICY}; r=${Math.max(0, left)}; t=${secondsLeft}`);
  reply.header("RateLimit-Policy", window.policy);
  return left < 0 ? fail(reply, 429, "RATE_LIMITED") : undefined;
}

const uuid = { type: "string", pattern: "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$" };

type Row = { id: string; createdAt: string; status: string };

function toPublic(row: Row): Row {
  row.status = projectStatus(row.status);
  return row;
}

const formPath = { onRequest: authenticate, schema: { params: { type: "object", properties: { id: uuid } } } };

app.get<{ Params: { id: string } }>("/v1/forms/:id", formPath, async ({ apiKey, params }, reply) => {
  const [row] = await query<Row>("form", [apiKey?.userId, params.id]);
  return row ? toPublic(row) : fail(reply, 404, "RESOURCE_NOT_FOUND");
});

const limit = { type: "integer", default: 50, minimum: 1, maximum: 100 };
const querystring = { type: "object", properties: { limit, cursor: { type: "string" } }, additionalProperties: false };
const listPath = { onRequest: authenticate, schema: { querystring } };
type Page = { Querystring: { limit: number; cursor?: string } };

app.get<Page>("/v1/forms", listPath, async ({ apiKey, query: { limit, cursor } }) => {
  const position = keysetValues(readCursor(cursor), limit + 1);
  const rows = await query<Row>("forms", [apiKey?.userId, ...position]);
  return toPage(rows.map(toPublic), limit);
});

type Created = { id: string | null; answer: object; createdAt: string; replayed: boolean; reused: boolean };

const NULL_FIELDS = nullFields(formV1);

app.post("/v1/forms", { onRequest: authenticate }, async ({ apiKey, body, headers, correlationId }, reply) => {
  if (apiKey?.mode !== "READ_WRITE") return fail(reply, 403, "FORBIDDEN");
  const parsed = createInput.safeParse(body);
  if (!parsed.success) return fail(reply, 400, "VALIDATION_ERROR");
  const form = newForm(parsed.data);
  const [created] = await query<Created>("create", [
    ...[apiKey.userId, form.listingId, form.fingerprint, headers["idempotency-key"] ?? null, form.id, form.publicId],
    ...[form.checkInDate, form.checkOutDate, form.numberOfGuests, form.guestEmail, apiKey.id, correlationId],
    ...[form.answer, form.externalId],
  ]);
  if (!created) return fail(reply, 404, "RESOURCE_NOT_FOUND");
  if (created.reused) return fail(reply, 422, "IDEMPOTENCY_KEY_REUSED");
  if (!created.id) return fail(reply, 400, "VALIDATION_ERROR");
  reply.code(201).header("Location", `/v1/forms/${created.id}`);
  if (created.replayed) reply.header("Idempotent-Replayed", "true");
  // jsonb does not keep the order of the fields.
  return { ...NULL_FIELDS, ...created.answer, createdAt: created.createdAt, updatedAt: created.createdAt };
});

await app.listen({ port: settings.port, host: "127.0.0.1" });
