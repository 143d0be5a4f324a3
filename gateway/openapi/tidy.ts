import type { Json } from "./json.js";

/** A request's schema as clients want it: null as one more type, and no pattern beside a format that says the same. */
export const tidyRequest = (schema: unknown): Json => walk(schema, simplify) as Json;

/**
 * The same for a response, which besides is open to new fields and new enumerated values. Nullable fields are not
 * required, so that generated clients accept a response without them.
 */
export const tidyResponse = (schema: unknown): Json => walk(schema, (part) => open(simplify(part))) as Json;

/** Applies a change to every object of a JSON value, innermost first. */
function walk(part: unknown, change: (schema: Json) => Json): unknown {
  if (Array.isArray(part)) return part.map((inner) => walk(inner, change));
  if (typeof part !== "object" || part === null) return part;
  return change(Object.fromEntries(Object.entries(part).map(([name, inner]) => [name, walk(inner, change)])));
}

function simplify(part: Json): Json {
  let schema = part;
  const either = schema.anyOf as Json[] | undefined;
  if (either?.length === 2 && either[1]?.type === "null" && typeof either[0]?.type === "string") {
    const { anyOf: _, ...rest } = schema;
    schema = { ...either[0], ...rest, type: [either[0].type, "null"] };
  }
  if (schema.format === "uuid" || schema.format === "email") delete schema.pattern;
  if (schema.format === "uuid") schema.maxLength = 36;
  return schema;
}

function open(schema: Json): Json {
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
      { type, ...NEW_VALUE },
    ],
  };
}

/** What enumerated values of later versions will look like. */
const NEW_VALUE = { pattern: "^[A-Z_]{1,32}$", maxLength: 32 };

const allowsNull = (schema: Json | undefined) => Array.isArray(schema?.type) && schema.type.includes("null");
