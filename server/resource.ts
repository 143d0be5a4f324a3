import type { z } from "zod";

// A public resource is defined once, by its zod schema: each field is the column of the same name in snake case. What is
// read from the database, and what the OpenAPI document shows, follow from the schema.

const snakeCase = (field: string) => field.replace(/[A-Z]/g, (capital) => `_${capital.toLowerCase()}`);

/** The columns of a resource as a select list over the table alias, each under its field's name. */
export const selectList = (schema: z.ZodObject, alias: string): string =>
  Object.keys(schema.shape)
    .map((field) => `${alias}.${snakeCase(field)} AS "${field}"`)
    .join(", ");

/** The same columns for Prisma's client. */
export const selectOf = <Shape extends z.ZodRawShape>(schema: z.ZodObject<Shape>) =>
  Object.fromEntries(Object.keys(schema.shape).map((field) => [field, true])) as {
    [Field in keyof Shape]: true;
  };

/** A row as prepared SQL reads it: instants are text (`Sql` in db.ts). */
export type SqlRow<Row> = {
  [Column in keyof Row]: Date extends Row[Column] ? Exclude<Row[Column], Date> | string : Row[Column];
};

/** Every field of a resource, null: what a row that was stored before a field existed says of it. */
export const nullFields = <Shape extends z.ZodRawShape>(schema: z.ZodObject<Shape>) =>
  Object.fromEntries(Object.keys(schema.shape).map((field) => [field, null])) as {
    [Field in keyof Shape]: null;
  };
