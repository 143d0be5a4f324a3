// What the documentation and the generated files read of the OpenAPI document.

/** A JSON object of the document. */
export interface Json {
  [name: string]: unknown;
}

export interface Schema {
  $ref?: string;
  title?: string;
  type?: string | string[];
  format?: string;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  pattern?: string;
  description?: string;
  default?: unknown;
  example?: unknown;
  enum?: string[];
  const?: string | boolean;
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean;
}

/** A property, parameter or header. */
export interface Field {
  name: string;
  schema: Schema;
  description?: string | undefined;
  required?: boolean | undefined;
}

export interface Parameter extends Field {
  in: "path" | "query" | "header";
}

export interface Response {
  $ref?: string;
  description: string;
  headers?: Record<string, { $ref?: string; description?: string; schema?: Schema }>;
  content?: Record<string, { schema: Schema; example?: unknown; examples?: Record<string, unknown> }>;
}

interface Operation {
  operationId: string;
  summary?: string;
  description?: string;
  tags?: string[];
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, Response>;
  "x-codeSamples": { lang: string; label: string; source: string }[];
}

interface Webhook {
  description: string;
  tags: string[];
  requestBody: { content: Record<string, { schema: Schema; example?: unknown }> };
  responses: Record<string, Response>;
}

export interface OpenApiDocument {
  info: { title: string; version: string; summary: string };
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  webhooks: Record<string, { post: Webhook }>;
  components: {
    parameters: Record<string, Parameter>;
    schemas: Record<string, Schema>;
    responses: Record<string, Response>;
    headers: Record<string, { description?: string; schema?: Schema }>;
  };
}

/** The fields of an object's schema, in order. */
export const fieldsOf = ({ properties = {}, required = [] }: Schema): Field[] =>
  Object.entries(properties).map(([name, schema]) => ({
    name,
    schema,
    description: schema.description,
    required: required.includes(name),
  }));

/** The fields of a schema of the document. */
export function componentFields({ components }: OpenApiDocument, name: string): Field[] {
  const schema = components.schemas[name];
  if (!schema) throw new Error(`the document has no schema ${name}`);
  return fieldsOf(schema);
}

/** The JSON types of a schema. */
export const typesOf = ({ type, anyOf }: Schema): string[] => [type ?? anyOf?.[0]?.type ?? "object"].flat();

/** The enumerated values of a schema. */
export const valuesOf = ({ enum: values, const: only, anyOf = [] }: Schema): string[] =>
  values ?? (only === undefined ? anyOf.flatMap(({ enum: inner = [] }) => inner) : [String(only)]);

/** Whether it is a page of results. */
export const isPage = ({ properties = {} }: Schema): boolean => "nextCursor" in properties;

/** The name of the schema of a JSON body; empty if there is none. */
export const refOf = (content: Record<string, { schema: Schema }> = {}): string =>
  nameOf(content["application/json"]?.schema.$ref ?? "");

export const nameOf = (ref: string) => ref.slice(ref.lastIndexOf("/") + 1);

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

/** The group of operations without a tag. */
export const OTHER_TAG = "Other";

/** All operations with their method and path. */
export const operationsOf = ({ paths }: OpenApiDocument) =>
  Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      tag: operation.tags?.[0] ?? OTHER_TAG,
      title: operation.summary ?? operation.operationId,
      operation,
    })),
  );

export type Endpoint = ReturnType<typeof operationsOf>[number];

/** All events that webhooks send. */
export const eventsOf = ({ webhooks, components }: OpenApiDocument) =>
  Object.entries(webhooks).map(([type, { post }]) => {
    const name = refOf(post.requestBody.content);
    const schema = components.schemas[name];
    if (!schema) throw new Error(`the document has no schema ${name}`);
    return { type, name, schema, webhook: post };
  });

export type Event = ReturnType<typeof eventsOf>[number];
