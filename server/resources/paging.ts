import { createHmac, type KeyObject, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import type { Services } from "../access/context.js";
import { DEFAULT_LIMIT, MAX_LIMIT } from "../constants.js";
import { Unavailable } from "../database/failures.js";
import type { Keys } from "../encryption.js";
import { expected, ServiceError } from "../errors.js";
import { NIL_UUID } from "../values.js";

/** Page size: an integer, clamped to 1..100; 50 if absent. */
export const limit = z
  .number({ error: expected("an integer") })
  .refine(Number.isInteger, "must be an integer")
  .transform((value) => Math.min(Math.max(value, 1), MAX_LIMIT))
  .prefault(DEFAULT_LIMIT)
  .meta({
    type: "integer",
    format: "int32",
    description: "Page size. Values outside 1 to 100 are clamped.",
    example: 50,
  });

/** Format of a cursor. */
const token = { pattern: "^[A-Za-z0-9_-]+$", maxLength: 512 };

export const cursor = z
  .string({ error: expected("a string") })
  .meta({
    description: "The `nextCursor` of the previous page. Omit it for the first page.",
    // Not `example`, which the code samples send.
    examples: ["AQ0A1b2C3d4E5f6G7h8J9k0L1m2N3p4Q5r6S7t8U9v0W1x2Y3z"],
    ...token,
  })
  .optional();

export const nextCursor = z
  .string()
  .nullable()
  .meta({
    description: "Send it as `cursor` to get the next page; null on the last page.",
    example: null,
    ...token,
  });

/** OpenAPI metadata of a page's items. */
export const pageItems = (what: string) => ({
  description: `${what} on this page, at most \`limit\`.`,
  maxItems: MAX_LIMIT,
});

/** Position in a list: after this row. `createdAt` is in milliseconds since 1970. */
export interface Position {
  createdAt: number;
  id: string;
}

/** The list and filters that a cursor belongs to. */
export interface ListIdentity {
  list:
    | "forms"
    | "listings"
    | "all forms"
    | "all listings"
    | "users"
    | "members"
    | "keys"
    | "emails"
    | "webhooks"
    | "deliveries";
  listingId?: string | undefined;
  /** The other filters. */
  filters?: Record<string, string | undefined> | undefined;
}

const VERSION = 1;
const MAC_BYTES = 16;
const BODY_BYTES = 1 + 8 + 16;

function mac(key: KeyObject, identity: ListIdentity, body: Buffer): Buffer {
  const filters = identity.filters ? JSON.stringify(identity.filters) : "";
  const boundTo = `${identity.list}:${identity.listingId ?? ""}:${filters}`;
  return createHmac("sha256", key).update(boundTo).update(body).digest().subarray(0, MAC_BYTES);
}

/** Returns an opaque, versioned token, signed with the newest key and bound to its list and filters. */
export function encodeCursor(keys: Keys, identity: ListIdentity, { createdAt, id }: Position): string {
  const body = Buffer.alloc(BODY_BYTES);
  body.writeUInt8(VERSION, 0);
  body.writeBigInt64BE(BigInt(createdAt), 1);
  body.write(id.replaceAll("-", ""), 9, "hex");
  return Buffer.concat([body, mac(keys[0], identity, body)]).toString("base64url");
}

/** Returns the position of a cursor. Throws INVALID_CURSOR unless it was issued for this list and is unaltered. */
export function decodeCursor(keys: Keys, identity: ListIdentity, text: string): Position {
  const bytes = Buffer.from(text, "base64url");
  const body = bytes.subarray(0, BODY_BYTES);
  const signature = bytes.subarray(BODY_BYTES);
  const isIntact =
    bytes.length === BODY_BYTES + MAC_BYTES &&
    bytes.toString("base64url") === text &&
    body[0] === VERSION &&
    keys.some((key) => timingSafeEqual(mac(key, identity, body), signature));
  if (!isIntact) throw new ServiceError("INVALID_CURSOR");
  const hex = body.subarray(9).toString("hex");
  return {
    createdAt: Number(body.readBigInt64BE(1)),
    id: hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5"),
  };
}

/** SQL parameters of `(created_at, id) > ($n, $n+1) … LIMIT $n+2`, or `<` for the newest first. */
export type KeysetValues = [createdAt: string, id: string, take: number];

/** Before all rows of a list. */
const START = {
  "oldest first": ["-infinity", NIL_UUID],
  "newest first": ["infinity", NIL_UUID.replaceAll("0", "f")],
} as const;

export const keysetValues = (
  after: Position | undefined,
  take: number,
  order: keyof typeof START = "oldest first",
): KeysetValues => (after ? [new Date(after.createdAt).toISOString(), after.id, take] : [...START[order], take]);

export interface Page<Item> {
  items: Item[];
  nextCursor: string | null;
}

const MAX_BIGINT = 2n ** 63n - 1n;

// Cursors hold 16 bytes: a UUID, or an id as a number of as many bytes.
export const toCursorId = (id: string) => BigInt(id).toString(16).padStart(32, "0");

export function fromCursorId(id: string): string {
  const number = BigInt(`0x${id.replaceAll("-", "")}`);
  // The start of a list that is newest first is larger than any id.
  return (number < MAX_BIGINT ? number : MAX_BIGINT).toString();
}

interface PageInput {
  limit: number;
  cursor?: string | undefined;
}

interface List<Row, Item> {
  identity: ListIdentity;
  order: keyof typeof START;
  /** Reads the rows of a page, in order. */
  read: (page: KeysetValues) => Promise<Row[]>;
  project: (row: Row) => Item;
  /**
   * If rows may still appear before `last`, waits until none can, then returns true; otherwise returns false. If omitted, a
   * cursor may skip rows that become visible after it was issued.
   */
  waitForEarlierRows?: (last: Row) => Promise<boolean>;
}

const MAX_READS = 6;

/** Reads a page, with one extra row to detect the last page without another query. */
export async function readPage<Row extends { id: string; createdAt: string }, Item>(
  { services: { keyring } }: { services: Pick<Services, "keyring"> },
  { limit: size, cursor }: PageInput,
  { identity, order, read, project, waitForEarlierRows }: List<Row, Item>,
): Promise<Page<Item>> {
  const after = cursor === undefined ? undefined : decodeCursor(keyring.cursor, identity, cursor);
  let completeUntil = "";
  for (let reads = 1; reads <= MAX_READS; reads++) {
    const rows = await read(keysetValues(after, size + 1, order));
    const page = rows.slice(0, size);
    const items = page.map(project);
    const last = rows.length > size ? page.at(-1) : undefined;
    if (!last) return { items, nextCursor: null };
    if (last.createdAt <= completeUntil || !(await waitForEarlierRows?.(last))) {
      const position = { createdAt: Date.parse(last.createdAt), id: last.id };
      return { items, nextCursor: encodeCursor(keyring.cursor, identity, position) };
    }
    // Read again to include the rows that appeared during the wait: a cursor would skip them.
    completeUntil = last.createdAt;
  }
  // Rows left the list during every wait, so each read ended in a later row.
  throw new Unavailable("the list keeps changing");
}
