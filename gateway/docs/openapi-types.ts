// The parts of the OpenAPI document that the documentation uses.

export interface Schema {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  default?: unknown;
  example?: unknown;
  enum?: string[];
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
}

export interface Parameter {
  name: string;
  in: "path" | "query" | "header";
  required?: boolean;
  description?: string;
  schema: Schema;
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

export interface OpenApiDocument {
  info: { title: string; version: string; summary: string };
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: {
    schemas: Record<string, Schema>;
    responses: Record<string, Response>;
    headers: Record<string, { description?: string; schema?: Schema }>;
  };
}

export const nameOf = (ref: string) => ref.slice(ref.lastIndexOf("/") + 1);

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
