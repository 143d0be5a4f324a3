import { z } from "zod";
import { expected } from "../errors.js";
import { createInput, updateInput } from "../listings/schema.js";
import { setMemberInput } from "../memberships/schema.js";
import { externalId, reference } from "../texts.js";
import { createUserInput } from "../users/schema.js";
import { isUuid, uuid } from "../values.js";

const { ownerId: _, ...newListing } = createInput.shape;

/**
 * The id in the service, which an export writes. The row that has it, and no external id yet, gets the row's. It may be of
 * another database: then nothing has it.
 */
const id = z
  .string({ error: expected("a UUID") })
  .trim()
  .pipe(uuid)
  .nullish();

/** A listing. `active` is unchanged if absent, and true for a new listing. */
const listingRow = z.strictObject({
  type: z.literal("listing"),
  externalId,
  id,
  ...newListing,
  active: updateInput.shape.active,
});

const userRow = z.strictObject({ type: z.literal("user"), externalId, id, ...createUserInput.shape });

/** `listing` and `user` are external ids or ids; `user` may also be an email address. The pair identifies the row. */
const membershipRow = z.strictObject({
  type: z.literal("membership"),
  listing: externalId,
  user: reference,
  role: z
    .string({ error: expected("a string") })
    .toUpperCase()
    .pipe(setMemberInput.shape.role),
});

/** One row of a file. Absent fields of a row that exists are unchanged; null unsets. */
export const row = z.discriminatedUnion("type", [userRow, listingRow, membershipRow], {
  error: "must be one of user, listing and membership",
});

export type UserRow = z.output<typeof userRow>;
export type ListingRow = z.output<typeof listingRow>;
export type MembershipRow = z.output<typeof membershipRow>;
export type Row = z.output<typeof row>;
export type RowType = Row["type"];

/** The rows of one type. */
export const rowsOf = <Type extends RowType>(rows: readonly Row[], type: Type) =>
  rows.filter((row): row is Extract<Row, { type: Type }> => row.type === type);

/** The fields of each type of row. */
export const ROW_SHAPES = {
  user: userRow.shape,
  listing: listingRow.shape,
  membership: membershipRow.shape,
} satisfies Record<RowType, Record<string, z.ZodType>>;

/** Rows per write and per page of an export. Small, so that a write locks its rows only briefly. */
export const BATCH = 200;

const count = z.int();
/** Rows by what a write did or would do. */
const counts = z.object({ created: count, updated: count, unchanged: count });

export type Counts = z.infer<typeof counts>;
export type Outcome = keyof Counts;

export const writeInput = z.strictObject({
  rows: z
    .array(row)
    .min(1, "must not be empty")
    .max(BATCH, `must be at most ${BATCH} rows`)
    .refine((rows) => rows.every(({ type }) => type === rows[0]?.type), "must all have the same type"),
});

/** `ids` are those of the rows, in their order. Memberships have none. */
export const written = counts.extend({ ids: z.array(z.guid()) });

export type Written = z.infer<typeof written>;

/** A whole file. `isPartial` if it has rows that cannot be read: they may be what memberships refer to. */
export const checkInput = z.strictObject({
  lines: z.array(z.strictObject({ line: z.int(), value: z.unknown() })),
  isPartial: z.boolean().optional(),
});

export type CheckInput = z.output<typeof checkInput>;

/** `value` is what the file has on this line, possibly not a row. */
export type Line = CheckInput["lines"][number];

const lineError = z.object({ line: z.int(), field: z.string(), issue: z.string() });

export type LineError = z.infer<typeof lineError>;

/** The rows of a file by what an import did or would do. */
const fileCounts = z.object({ users: counts, listings: counts, memberships: counts });

export type FileCounts = z.infer<typeof fileCounts>;

/** `errors` is empty if the file can be imported. */
export const checked = z.object({ errors: z.array(lineError), counts: fileCounts });

export type Checked = z.infer<typeof checked>;

/** `after` is the `next` of the previous page. */
export const exportInput = z.strictObject({
  type: z.enum(["user", "listing", "membership"], { error: "must be one of user, listing and membership" }),
  after: z
    .string()
    .refine((key) => key.split(" ").every(isUuid), "must be the `next` of a page")
    .optional(),
});

export const exportPage = z.object({
  rows: z.array(z.record(z.string(), z.unknown())),
  next: z.string().nullable(),
});
