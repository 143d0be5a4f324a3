import type { Call, OperatorContext } from "../access/context.js";
import { parseMessageId } from "../emails/message-id.js";
import { ServiceError } from "../errors.js";
import { auditLookUp, findFormsByAddress } from "../forms/find-by-address.js";
import { findKey } from "../keys/store.js";
import { listAllListings } from "../listings/store.js";
import { search } from "../texts.js";
import { listUsers } from "../users/store.js";
import { emailAddress, publicIdsIn } from "../values.js";
import { apiKeyIn, idRangeIn } from "./read-text.js";
import type { Found, findInput, Hit } from "./schema.js";

/** Matches of a kind. */
const MAX_HITS = 10;

const hits = (
  kind: Hit["kind"],
  fields: Record<"id" | "name", string> & Partial<Record<"about" | "at" | "user", string>>,
  from: string,
) => {
  const { id, name, about = "NULL", at = "NULL", user = "NULL" } = fields;
  return `(
    SELECT '${kind}' AS kind, ${id} AS id, ${name} AS name, ${about}::text AS about, ${at}::timestamptz AS "checkInDate", ${user}::uuid AS "userId"
    FROM ${from} LIMIT ${MAX_HITS + 1})`;
};

const FORM = { id: "f.id", name: "l.title", about: "f.status", at: "f.check_in_date" };
const LISTING = { id: "l.id", name: "l.title", about: "l.city" };
const USER = { id: "u.id", name: "coalesce(u.name, u.email)", about: "u.email" };

const inRange = (column: string) => `${column} BETWEEN $1::uuid AND $2::uuid ORDER BY ${column}`;

const BY_ID = [
  hits("form", FORM, `forms f JOIN listings l ON l.id = f.listing_id WHERE ${inRange("f.id")}`),
  hits("listing", LISTING, `listings l WHERE ${inRange("l.id")}`),
  hits("user", USER, `users u WHERE ${inRange("u.id")}`),
  hits(
    "key",
    { id: "k.id", name: "k.prefix", about: "k.label", user: "k.user_id" },
    `api_keys k WHERE ${inRange("k.id")}`,
  ),
  hits("endpoint", { id: "w.id", name: "w.url" }, `webhook_endpoints w WHERE ${inRange("w.id")}`),
  hits(
    "request",
    { id: "e.correlation_id", name: "e.correlation_id::text" },
    `(SELECT DISTINCT correlation_id FROM audit_entries WHERE ${inRange("correlation_id")}) e`,
  ),
].join(" UNION ALL ");

const newestFirst = (alias: string) => `ORDER BY ${alias}.created_at DESC, ${alias}.id DESC`;

// Each by an index of its own.
const BY_NAME = [
  hits("form", FORM, `forms f JOIN listings l ON l.id = f.listing_id WHERE f.public_id = ANY($2::text[])`),
  hits(
    "form",
    FORM,
    `forms f JOIN listings l ON l.id = f.listing_id WHERE f.external_id = $1::text ${newestFirst("f")}`,
  ),
  hits("listing", LISTING, `listings l WHERE l.external_id = $1::text`),
  hits("listing", LISTING, `listings l WHERE l.public_id = ANY($2::text[])`),
  hits("user", USER, `users u WHERE u.external_id = $1::text`),
  hits("user", USER, `users u WHERE lower(u.email COLLATE "C") = lower($1::text COLLATE "C")`),
].join(" UNION ALL ");

const OF_GUEST = hits(
  "form",
  FORM,
  `forms f JOIN listings l ON l.id = f.listing_id WHERE f.id = ANY($1::uuid[]) ${newestFirst("f")}`,
);

/** What the text means exactly, also as a guest's address, then the listings and users whose names contain it, newest first. */
export async function findByText({ ctx, input: { text } }: Call<typeof findInput, OperatorContext>): Promise<Found> {
  // A key is a secret: nothing else is asked for it.
  const key = apiKeyIn(text);
  if (key) return { hits: await findKeyHit(ctx, key), more: [], unreadable: null };
  const { db } = ctx.services;
  const range = idRangeIn(text);
  const isWholeId = range !== undefined && range[0] === range[1];
  // A Message-ID looks like an address.
  const address = parseMessageId(text) ? undefined : emailAddress.safeParse(text).data;
  const [byId, byName, ofGuest, byPart] = await Promise.all([
    range ? db.query<Hit>("find-by-id", BY_ID, range) : [],
    db.query<Hit>("find-by-name", BY_NAME, [text, publicIdsIn(text)]),
    address === undefined ? undefined : findFormsOfGuest(ctx, address),
    isWholeId ? [] : findByPart(ctx, text),
  ]);
  const all = [...byId, ...byName, ...(ofGuest?.hits ?? []), ...byPart];
  const each = new Map(all.map((hit) => [`${hit.kind} ${hit.id}`, hit])).values();
  return { ...limitKinds(each), unreadable: ofGuest?.unreadable ?? null };
}

/** The newest forms that have a guest's address. The look-up is audited with each that is shown. */
async function findFormsOfGuest(ctx: OperatorContext, address: string) {
  const { db } = ctx.services;
  const { ids, unreadable } = await findFormsByAddress(ctx, address);
  const found = await db.query<Hit>("find-forms-of-guest", OF_GUEST, [ids]);
  await auditLookUp(
    db,
    ctx,
    found.slice(0, MAX_HITS).map(({ id }) => id),
  );
  return { hits: found, unreadable };
}

function limitKinds(all: Iterable<Hit>): Pick<Found, "hits" | "more"> {
  const counts = new Map<Hit["kind"], number>();
  const shown: Hit[] = [];
  for (const hit of all) {
    const count = (counts.get(hit.kind) ?? 0) + 1;
    counts.set(hit.kind, count);
    if (count <= MAX_HITS) shown.push(hit);
  }
  const isCut = ([, count]: [Hit["kind"], number]) => count > MAX_HITS;
  return { hits: shown, more: [...counts].filter(isCut).map(([kind]) => kind) };
}

const NO_DETAILS = { about: null, checkInDate: null, userId: null };

async function findKeyHit(ctx: OperatorContext, given: string): Promise<Hit[]> {
  try {
    const { id, prefix, label, userId } = await findKey({ ctx, input: { key: given } });
    return [{ ...NO_DETAILS, kind: "key", id, name: prefix, about: label, userId }];
  } catch (error) {
    if (error instanceof ServiceError && error.serviceCode === "RESOURCE_NOT_FOUND") return [];
    throw error;
  }
}

async function findByPart(ctx: OperatorContext, text: string): Promise<Hit[]> {
  const { data } = search.safeParse(text);
  if (data === undefined) return [];
  const input = { search: data, limit: MAX_HITS + 1, cursor: undefined };
  const [listings, users] = await Promise.all([listAllListings({ ctx, input }), listUsers({ ctx, input })]);
  return [
    ...listings.items.map(({ id, title, city }) => ({
      ...NO_DETAILS,
      kind: "listing" as const,
      id,
      name: title,
      about: city,
    })),
    ...users.items.map(({ id, name, email }) => ({
      ...NO_DETAILS,
      kind: "user" as const,
      id,
      name: name ?? email,
      about: email,
    })),
  ];
}
