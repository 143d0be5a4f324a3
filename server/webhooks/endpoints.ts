import { randomUUID } from "node:crypto";
import { CREATING_ENDPOINT } from "../../prisma/advisory-locks.js";
import type { Call, InAppContext } from "../access/context.js";
import { membershipInScope } from "../access/scope.js";
import { audit } from "../audit-trail/audit.js";
import type { Sql } from "../database/db.js";
import { waitForInFlightWrites } from "../database/in-flight-writes.js";
import { seal } from "../encryption.js";
import { invalid, notFound } from "../errors.js";
import { type Page, readPage } from "../resources/paging.js";
import { selectList, toColumns } from "../resources/resource.js";
import { lockUsers } from "../users/store.js";
import { omitUndefined } from "../values.js";
import { endBacklog } from "./expiry.js";
import { whyUrlIsRefused } from "./request.js";
import type * as schema from "./schema.js";
import { type Endpoint, endpoint } from "./schema.js";
import { newSecret } from "./sign.js";

const MAX_ENDPOINTS_PER_OWNER = 20;
/** Both secrets sign for so long after a rotation. */
const ROTATION_HOURS = 24;

type Row = Omit<Endpoint, "enabled">;

const COLUMNS = selectList(endpoint, "w");

const project = (row: Row): Endpoint => ({ ...row, enabled: row.disabledAt === null });

/** The user whose endpoints the caller may see; null for the operator, who may see all. */
const ownerInScope = ({ principal }: InAppContext): string | null =>
  principal.kind === "user" ? principal.userId : null;

/** SQL: the endpoint is in the scope of the caller; `owner` is the parameter with `ownerInScope`. */
const endpointInScope = (owner: string) => `(${owner}::uuid IS NULL OR w.user_id = ${owner}::uuid)`;

const LOCK = `
  SELECT ${COLUMNS} FROM webhook_endpoints w WHERE w.id = $1::uuid AND ${endpointInScope("$2")} FOR NO KEY UPDATE`;

async function lockEndpoint(tx: Sql, ctx: InAppContext, id: string): Promise<Row> {
  const [row] = await tx.query<Row>("lock-endpoint", LOCK, [id, ownerInScope(ctx)]);
  if (!row) throw notFound();
  return row;
}

const GET = `SELECT ${COLUMNS} FROM webhook_endpoints w WHERE w.id = $1::uuid AND ${endpointInScope("$2")}`;

export async function getEndpoint({
  ctx,
  input: { id },
}: Call<typeof schema.getInput, InAppContext>): Promise<Endpoint> {
  const [row] = await ctx.services.db.query<Row>("endpoint", GET, [id, ownerInScope(ctx)]);
  if (!row) throw notFound();
  return project(row);
}

const oldest = (condition: string) => `
  SELECT ${COLUMNS} FROM webhook_endpoints w
  WHERE ${condition} (w.created_at, w.id) > ($1::timestamptz, $2::uuid)
  ORDER BY w.created_at, w.id
  LIMIT $3::int`;

const OLDEST = oldest("");
const OLDEST_OF_USER = oldest("w.user_id = $4::uuid AND");

export function listEndpoints({ ctx, input }: Call<typeof schema.listInput, InAppContext>): Promise<Page<Endpoint>> {
  const { db } = ctx.services;
  const userId = checkOwner(ctx, input.userId) ?? undefined;
  return readPage(ctx, input, {
    identity: { list: "webhooks", filters: { userId } },
    order: "oldest first",
    read: (page) =>
      userId === undefined
        ? db.query<Row>("oldest-endpoints", OLDEST, page)
        : db.query<Row>("oldest-endpoints-of-user", OLDEST_OF_USER, [...page, userId]),
    project,
  });
}

/** The owner that the caller has named. A user may only name itself, and need not. */
function checkOwner({ principal }: InAppContext, userId: string | null | undefined): string | null {
  if (principal.kind === "operator") return userId ?? null;
  if (userId !== undefined && userId !== principal.userId)
    throw invalid([{ field: "userId", issue: "must be your own id" }]);
  return principal.userId;
}

function checkUrl({ services }: InAppContext, url: string): void {
  const issue = whyUrlIsRefused(url, services.settings);
  if (issue) throw invalid([{ field: "url", issue }]);
}

const LISTINGS_OF_OWNER = `
  SELECT m.listing_id AS id FROM memberships m WHERE ${membershipInScope("$1")} AND m.listing_id = ANY($2::uuid[])`;
const ANY_LISTINGS = "SELECT l.id FROM listings l WHERE l.id = ANY($1::uuid[])";

async function checkListings(tx: Sql, owner: string | null, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  const found =
    owner === null
      ? await tx.query<{ id: string }>("listings-of-endpoint", ANY_LISTINGS, [ids])
      : await tx.query<{ id: string }>("listings-of-owner", LISTINGS_OF_OWNER, [owner, ids]);
  const missing = ids.find((id) => !found.some((listing) => listing.id === id));
  if (missing === undefined) return;
  const issue = `there is no listing ${missing}, or it is not in the scope of the endpoint's owner`;
  throw invalid([{ field: "listingIds", issue }]);
}

// Creates for one owner wait for each other, so that none exceeds the limit.
const LOCK_OWNER = `SELECT pg_advisory_xact_lock(${CREATING_ENDPOINT}, hashtext($1::text))`;

const COUNT = `
  SELECT count(*)::int AS count FROM webhook_endpoints w
  WHERE w.user_id = $1::uuid OR ($1::uuid IS NULL AND w.user_id IS NULL)`;

const INSERT = `
  INSERT INTO webhook_endpoints AS w (id, user_id, url, events, listing_ids, secret)
  VALUES ($1::uuid, $2::uuid, $3, $4::text[], $5::uuid[], $6::bytea)
  RETURNING ${COLUMNS}`;

export async function createEndpoint({ ctx, input }: Call<typeof schema.createInput, InAppContext>) {
  const { db, keyring } = ctx.services;
  const owner = checkOwner(ctx, input.userId);
  checkUrl(ctx, input.url);
  const secret = newSecret();
  const created = await db.sqlTransaction(async (tx) => {
    await tx.query("lock-endpoint-owner", LOCK_OWNER, [owner ?? "operator"]);
    if (owner) await lockUsers(tx, [owner], "userId");
    await checkListings(tx, owner, input.listingIds);
    const [counted] = await tx.query<{ count: number }>("count-endpoints", COUNT, [owner]);
    if ((counted?.count ?? 0) >= MAX_ENDPOINTS_PER_OWNER)
      throw invalid([{ field: "url", issue: `an owner has at most ${MAX_ENDPOINTS_PER_OWNER} endpoints: delete one` }]);
    const id = randomUUID();
    const sealed = seal(keyring.webhook, secret, id);
    const values = [id, owner, input.url, input.events, input.listingIds, sealed];
    const [row] = await tx.query<Row>("insert-endpoint", INSERT, values);
    if (!row) throw new Error("the statement wrote no endpoint");
    await audit(tx, ctx, "webhook.created", id, owner ? { userId: owner } : {});
    return { ...project(row), secret };
  });
  await waitForChangesInFlight(ctx).catch(() => {});
  return created;
}

/**
 * Waits until the changes of forms that may not have seen an endpoint have ended, so that anyone who reads the list of forms
 * afterwards misses none. A change reads the endpoints when it locks its listing. A call that fails here can be repeated; only a
 * create cannot, because its secret must be returned.
 */
const waitForChangesInFlight = ({ services }: InAppContext) => waitForInFlightWrites(services.db, "listings");

/** SQL: forgets the failures of an endpoint, also those of requests that are in flight. */
const FORGET_FAILURES = "failing_since = NULL, paused_until = NULL, revision = revision + 1";

const UPDATE = `
  UPDATE webhook_endpoints w
  SET (events, listing_ids) = (SELECT p.events, p.listing_ids FROM jsonb_populate_record(w, $2::jsonb) p)
  WHERE w.id = $1::uuid
  RETURNING ${COLUMNS}`;

const SET_URL = `
  UPDATE webhook_endpoints w SET url = $2, ${FORGET_FAILURES} WHERE w.id = $1::uuid AND w.url <> $2`;

export async function updateEndpoint({ ctx, input }: Call<typeof schema.updateInput, InAppContext>): Promise<Endpoint> {
  const { id, ...given } = input;
  const change = omitUndefined(given);
  if (change.url !== undefined) checkUrl(ctx, change.url);
  const updated = await ctx.services.db.sqlTransaction(async (tx) => {
    const { userId } = await lockEndpoint(tx, ctx, id);
    if (change.url !== undefined) await tx.query("set-endpoint-url", SET_URL, [id, change.url]);
    await checkListings(tx, userId, change.listingIds ?? []);
    const [row] = await tx.query<Row>("update-endpoint", UPDATE, [id, JSON.stringify(toColumns(change))]);
    if (!row) throw notFound();
    const fields = Object.keys(change);
    if (fields.length > 0) await audit(tx, ctx, "webhook.updated", id, { fields });
    return project(row);
  });
  if (change.events || change.listingIds) await waitForChangesInFlight(ctx);
  return updated;
}

const ENABLE = `
  UPDATE webhook_endpoints w SET disabled_at = NULL, disabled_reason = NULL, ${FORGET_FAILURES}
  WHERE w.id = $1::uuid RETURNING ${COLUMNS}`;

const DISABLE = `
  UPDATE webhook_endpoints w SET disabled_at = coalesce(disabled_at, now()), disabled_reason = 'manual'
  WHERE w.id = $1::uuid RETURNING ${COLUMNS}`;

/**
 * Has no effect on an endpoint that is enabled already, or that somebody has disabled. To disable one that was disabled because it
 * failed ends the warnings about it. What waits for one that is disabled ends.
 */
async function setEnabled(ctx: InAppContext, id: string, enabled: boolean): Promise<Endpoint> {
  const endpoint = await ctx.services.db.sqlTransaction(async (tx) => {
    const stored = await lockEndpoint(tx, ctx, id);
    if (enabled ? stored.disabledAt === null : stored.disabledReason === "manual") return project(stored);
    const [row] = enabled
      ? await tx.query<Row>("enable-endpoint", ENABLE, [id])
      : await tx.query<Row>("disable-endpoint", DISABLE, [id]);
    if (!row) throw notFound();
    await audit(tx, ctx, enabled ? "webhook.enabled" : "webhook.disabled", id);
    return project(row);
  });
  if (enabled) await waitForChangesInFlight(ctx);
  // What is left is ended by the worker.
  else await endBacklog(ctx.services.db, id).catch(() => {});
  return endpoint;
}

export const enableEndpoint = ({ ctx, input }: Call<typeof schema.getInput, InAppContext>) =>
  setEnabled(ctx, input.id, true);

export const disableEndpoint = ({ ctx, input }: Call<typeof schema.getInput, InAppContext>) =>
  setEnabled(ctx, input.id, false);

/** Of all that still sign, so that a rotation whose response was lost can be repeated. */
const MAX_PREVIOUS_SECRETS = 5;

const ROTATE = `
  UPDATE webhook_endpoints w
  SET secret = $2::bytea, (previous_secrets, previous_secrets_until) = (
    SELECT array_agg(previous.secret), array_agg(previous.until)
    FROM (
      SELECT w.secret, now() + interval '${ROTATION_HOURS} hours' AS until
      UNION ALL
      (SELECT p.secret, p.until FROM unnest(w.previous_secrets, w.previous_secrets_until) AS p (secret, until)
       WHERE p.until > now() ORDER BY p.until DESC LIMIT ${MAX_PREVIOUS_SECRETS - 1})
    ) previous
  )
  WHERE w.id = $1::uuid RETURNING w.previous_secrets_until[1] AS until`;

export function rotateSecret({ ctx, input: { id } }: Call<typeof schema.getInput, InAppContext>) {
  const { db, keyring } = ctx.services;
  const secret = newSecret();
  return db.sqlTransaction(async (tx) => {
    await lockEndpoint(tx, ctx, id);
    const sealed = seal(keyring.webhook, secret, id);
    const [row] = await tx.query<{ until: string }>("rotate-endpoint-secret", ROTATE, [id, sealed]);
    if (!row) throw notFound();
    await audit(tx, ctx, "webhook.secret_rotated", id);
    return { id, secret, previousSecretUntil: row.until };
  });
}

// In batches, because the log of an endpoint has no limit and a statement of a request has little time. What waits goes first.
const DELETE_DELIVERIES = `
  DELETE FROM webhook_deliveries
  WHERE id = ANY(ARRAY(
    SELECT id FROM webhook_deliveries WHERE endpoint_id = $1::uuid ORDER BY state LIMIT 1000 FOR UPDATE SKIP LOCKED))
  RETURNING id`;

const DELETE = "DELETE FROM webhook_endpoints w WHERE w.id = $1::uuid";

/** Deletes an endpoint with its deliveries. Those of changes that commit meanwhile are deleted by the worker (`expiry.ts`). */
export async function deleteEndpoint({ ctx, input }: Call<typeof schema.getInput, InAppContext>): Promise<Endpoint> {
  const { db } = ctx.services;
  const deleted = await db.sqlTransaction(async (tx) => {
    const stored = await lockEndpoint(tx, ctx, input.id);
    await tx.query("delete-endpoint", DELETE, [stored.id]);
    await audit(tx, ctx, "webhook.deleted", stored.id);
    return project(stored);
  });
  const deleteSome = () => db.query("delete-deliveries", DELETE_DELIVERIES, [deleted.id]);
  // If it fails, the worker deletes what waits, and the retention the rest.
  for (let rows = [{}]; rows.length > 0; ) rows = await deleteSome().catch(() => []);
  return deleted;
}
