import { audit, auditEach } from "../audit.js";
import type { Context } from "../context.js";
import type { Sql } from "../db.js";
import type { FieldError } from "../errors.js";
import { Conflict } from "../failures.js";
import { toColumns } from "../resource.js";
import { assertNoIssues, countOutcomes } from "./outcomes.js";
import type { Counts, Outcome } from "./schema.js";

/** What a row of a file does to its table. */
export interface Upsert<Row> {
  row: Row;
  /** Id of the row that it names; undefined if it creates one. */
  id: string | undefined;
  /** The fields that get another value. */
  change: Record<string, unknown>;
  /** Why it cannot be written. */
  issues: FieldError[];
}

export const outcomeOf = ({ id, change }: Pick<Upsert<unknown>, "id" | "change">): Outcome =>
  id === undefined ? "created" : Object.keys(change).length > 0 ? "updated" : "unchanged";

/** The given fields that differ from the stored ones. Undefined is no change. */
export const changesOf = <Stored extends object>(stored: Stored, given: Partial<Stored>) =>
  Object.fromEntries(
    Object.entries(given).filter(
      ([field, value]) => value !== undefined && value !== stored[field as keyof Stored],
    ),
  );

/** A table that rows of a file create and update. */
export interface Target<Row> {
  table: "users" | "listings";
  /** Columns that an insert sets, and those that an update sets. */
  columns: { insert: string[]; update: string[] };
  /** Start of the audited actions. */
  noun: "user" | "listing";
  plan(sql: Sql, rows: readonly Row[]): Promise<Upsert<Row>[]>;
  /** Values that no two rows of a file may share, by field, in the form in which they are compared. */
  unique(row: Row): Record<string, string>;
  /** All fields of a new row. */
  toNew(row: Row): object;
}

const insertInto = ({ table, columns }: Pick<Target<unknown>, "table" | "columns">) => `
  INSERT INTO ${table} (${columns.insert})
  SELECT ${columns.insert} FROM jsonb_populate_recordset(NULL::${table}, $1::jsonb)
  ON CONFLICT DO NOTHING RETURNING id`;

// Populates from the current row, so that fields that do not change keep what another transaction has written.
const update = ({ table, columns }: Pick<Target<unknown>, "table" | "columns">) => `
  UPDATE ${table} SET (${columns.update}) = (
    SELECT ${columns.update.map((column) => `p.${column}`)} FROM jsonb_populate_record(${table}, changed.fields) p
  )
  FROM unnest($1::uuid[], $2::jsonb[]) AS changed (id, fields) WHERE ${table}.id = changed.id`;

const detailsOf = (change: object) => ({
  fields: Object.keys(change),
  ...("active" in change && { active: change.active === true }),
});

/** Creates and updates the rows in one transaction. VALIDATION_ERROR if one cannot be written. */
export const upsert = <Row extends { externalId: string }>(
  context: Context,
  target: Target<Row>,
  rows: readonly Row[],
): Promise<Counts> =>
  context.services.db.sqlTransaction(async (tx) => {
    const plan = await target.plan(tx, rows);
    assertNoIssues(plan);
    // The same order in every import, which prevents deadlocks.
    plan.sort((a, b) => (a.row.externalId < b.row.externalId ? -1 : 1));
    const { noun, table } = target;
    const created = plan.filter((row) => outcomeOf(row) === "created").map(({ row }) => target.toNew(row));
    if (created.length > 0) {
      const values = JSON.stringify(created.map(toColumns));
      const inserted = await tx.query<{ id: string }>(`import-${table}`, insertInto(target), [values]);
      if (inserted.length < created.length) throw new Conflict(`others have created ${table} of this batch`);
      const ids = inserted.map(({ id }) => id);
      await audit(tx, context, `${noun}.created`, ids);
    }
    const updated = plan.filter((row) => outcomeOf(row) === "updated");
    if (updated.length > 0) {
      const changes = updated.map(({ change }) => JSON.stringify(toColumns(change)));
      await tx.query(`reimport-${table}`, update(target), [updated.map(({ id }) => id), changes]);
      await auditEach(
        tx,
        context,
        `${noun}.updated`,
        updated.map(({ id = "", change }) => ({ subjectId: id, details: detailsOf(change) })),
      );
    }
    return countOutcomes(plan.map(outcomeOf));
  });
