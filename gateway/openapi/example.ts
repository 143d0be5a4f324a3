import type { Json } from "./tidy.js";

/**
 * An example of a response body: the values that the request sends, and the examples of all other fields. Undefined if a
 * field has no example.
 */
export function responseExample(schema: Json, schemas: Record<string, Json>, sent: Json): unknown {
  const { $ref, example, items, properties } = schema as Partial<SchemaObject>;
  if ($ref) return responseExample(schemas[$ref.split("/").at(-1) ?? ""] ?? {}, schemas, sent);
  if (example !== undefined) return example;
  if (items) return list(responseExample(items, schemas, sent));
  if (!properties) return undefined;
  const fields = Object.entries(properties).map(([name, property]) => {
    const value = sent[name] ?? responseExample(property, schemas, sent);
    return [name, property.format === "date-time" ? inUtc(value) : value] as const;
  });
  return fields.some(([, value]) => value === undefined) ? undefined : Object.fromEntries(fields);
}

interface SchemaObject {
  $ref: string;
  example: unknown;
  items: Json;
  properties: Record<string, Json>;
}

const list = (item: unknown) => (item === undefined ? undefined : [item]);

const inUtc = (value: unknown) => (typeof value === "string" ? new Date(value).toISOString() : value);
