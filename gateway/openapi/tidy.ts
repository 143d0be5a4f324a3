import type { Json, Schema } from "./read.js";

/** Simplifies a request schema for client generators: null becomes a type, and redundant patterns are removed. */
export const tidyRequest = (schema: Schema): Schema => walk(schema, simplify) as Schema;

/**
 * Simplifies a response schema, and allows new fields and new enumerated values. Nullable fields become optional, so that
 * generated clients accept a response without them.
 */
export const tidyResponse = (schema: unknown): Json => walk(schema, (part) => allowAdditions(simplify(part))) as Json;

/** Applies a change to every object of a JSON value, innermost first. */
function walk(part: unknown, change: (schema: Json) => Json): unknown {
  if (Array.isArray(part)) return part.map((inner) => walk(inner, change));
  if (typeof part !== "object" || part === null) return part;
  return change(Object.fromEntries(Object.entries(part).map(([name, inner]) => [name, walk(inner, change)])));
}

function simplify(part: Json): Json {
  let schema = part;
  const variants = schema.anyOf as Json[] | undefined;
  if (variants?.length === 2 && variants[1]?.type === "null" && typeof variants[0]?.type === "string") {
    const { anyOf: _, ...rest } = schema;
    schema = { ...variants[0], ...rest, type: [variants[0].type, "null"] };
  }
  if (schema.format === "uuid" || schema.format === "email") delete schema.pattern;
  if (schema.format === "uuid") schema.maxLength = 36;
  return schema;
}

function allowAdditions(schema: Json): Json {
  if (schema.additionalProperties === false) {
    delete schema.additionalProperties;
    const properties = schema.properties as Record<string, Json>;
    schema.required = ((schema.required ?? []) as string[]).filter((name) => !allowsNull(properties[name]));
  }
  if (!Array.isArray(schema.enum) || schema.anyOf) return schema;
  const { type, enum: values, ...rest } = schema;
  return {
    ...rest,
    anyOf: [
      { type, enum: values },
      { type, ...FUTURE_VALUE },
    ],
  };
}

/** Matches enumerated values of later versions. */
const FUTURE_VALUE = { pattern: "^[A-Z_]{1,32}$", maxLength: 32 };

const allowsNull = (schema: Json | undefined) => Array.isArray(schema?.type) && schema.type.includes("null");
