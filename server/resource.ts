import type { z } from "zod";

// A public resource is defined once, by its zod schema. Each field is the column of the same name in snake case; the SQL
// select list and the OpenAPI document derive from the schema.

export const snakeCase = (field: string) => field.replace(/[A-Z]/g, (capital) => `_${capital.toLowerCase()}`);

/** Returns the fields under the names of their columns, for `jsonb_populate_record`. */
export const toColumns = (fields: object) =>
  Object.fromEntries(Object.entries(fields).map(([field, value]) => [snakeCase(field), value]));

/** Returns the select list of a resource, each column under its field's name. */
export const selectList = (schema: z.ZodObject, alias: string): string =>
  Object.keys(schema.shape)
    .map((field) => `${alias}.${snakeCase(field)} AS "${field}"`)
    .join(", ");

/** Returns the same columns as a `select` of Prisma's client. */
export const selectOf = <Shape extends z.ZodRawShape>(schema: z.ZodObject<Shape>) =>
  Object.fromEntries(Object.keys(schema.shape).map((field) => [field, true])) as {
    [Field in keyof Shape]: true;
  };

/** A row as read by prepared SQL: instants are text (see `Sql` in db.ts). */
export type SqlRow<Row> = {
  [Column in keyof Row]: Date extends Row[Column] ? Exclude<Row[Column], Date> | string : Row[Column];
};

/** Returns every field of a resource as null, to fill in fields that did not exist when a row was stored. */
export const nullFields = <Shape extends z.ZodRawShape>(schema: z.ZodObject<Shape>) =>
  Object.fromEntries(Object.keys(schema.shape).map((field) => [field, null])) as {
    [Field in keyof Shape]: null;
  };
