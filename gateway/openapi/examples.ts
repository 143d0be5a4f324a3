import { nameOf, type Schema } from "./read.js";
import type { Json } from "./tidy.js";

/**
 * An example of what the service sends: the given values of fields, and the examples of all other fields. Undefined if a
 * field has no example.
 */
export function exampleOf(schema: Schema, schemas: Record<string, Schema>, given: Json): unknown {
  const { $ref, example, items, properties } = schema;
  if ($ref) return exampleOf(schemas[nameOf($ref)] ?? {}, schemas, given);
  if (example !== undefined) return example;
  if (items) return list(exampleOf(items, schemas, given));
  if (!properties) return undefined;
  const fields = Object.entries(properties).map(([name, property]) => {
    const value = given[name] ?? exampleOf(property, schemas, given);
    return [name, property.format === "date-time" ? inUtc(value) : value] as const;
  });
  return fields.some(([, value]) => value === undefined) ? undefined : Object.fromEntries(fields);
}

const list = (item: unknown) => (item === undefined ? undefined : [item]);

const inUtc = (value: unknown) => (typeof value === "string" ? new Date(value).toISOString() : value);
