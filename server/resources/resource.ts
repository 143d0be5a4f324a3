import type { z } from "zod";

// A public resource is defined once, by its zod schema. Each field is the column of the same name in snake case; the SQL
// select list and the OpenAPI document derive from the schema.

export const snakeCase = (field: string) => field.replace(/[A-Z]/g, (capital) => `_${capital.toLowerCase()}`);

/** Returns the fields under the names of their columns, for `jsonb_populate_record`. */
export const toColumns = (fields: object) =>
  Object.fromEntries(Object.entries(fields).map(([field, value]) => [snakeCase(field), value]));

/** Returns the select list of these fields, each column under its field's name. `others`: the SQL of those that are no column. */
export const columnsOf = (fields: readonly string[], alias: string, others: Record<string, string> = {}): string =>
  fields.map((field) => `${others[field] ?? `${alias}.${snakeCase(field)}`} AS "${field}"`).join(", ");

/** Returns the select list of a resource. */
export const selectList = ({ shape }: z.ZodObject, alias: string, others?: Record<string, string>): string =>
  columnsOf(Object.keys(shape), alias, others);

/** Returns every field of a resource as null, to fill in fields that did not exist when a row was stored. */
export const nullFields = <Shape extends z.ZodRawShape>({ shape }: z.ZodObject<Shape>) =>
  Object.fromEntries(Object.keys(shape).map((field) => [field, null])) as { [Field in keyof Shape]: null };

/** A row of Prisma's types as SQL reads it: instants are text (see `Sql` in db.ts). */
export type SqlRow<Row> = {
  [Column in keyof Row]: Date extends Row[Column] ? Exclude<Row[Column], Date> | string : Row[Column];
};

/** SQL: whether one of the columns contains the text in this parameter, ignoring case. True if the parameter is null. */
export const containsSql = (parameter: string, columns: readonly string[]) =>
  `coalesce(position(lower(${parameter}::text) IN lower(normalize(concat_ws(E'\\n', ${columns.join(", ")})))) > 0, true)`;
