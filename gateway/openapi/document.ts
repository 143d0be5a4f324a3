import { generateOpenApiDocument } from "trpc-to-openapi";
import { z } from "zod";
import type { ErrorCode } from "../../server/errors.js";
import { appRouter } from "../../server/router.js";
import { type Operation, ROUTES } from "../http/operations.js";
import { readGuides } from "./guides.js";
import { components, headerRefs, PROSE } from "./parts.js";
import { errorResponses, responseComponents } from "./responses.js";
import { codeSamples } from "./samples.js";

/** A part of the document; JSON by nature. */
export interface Json {
  [name: string]: unknown;
}

/** What any operation can answer, whatever its own codes. */
const COMMON: readonly ErrorCode[] = ["UNAUTHENTICATED", "RATE_LIMITED", "INTERNAL_ERROR"];

/**
 * The OpenAPI 3.1 document: paths, parameters and bodies as trpc-to-openapi reads them off the router; status
 * codes, errors and headers from the one error table and the operations' own codes.
 */
export function buildDocument(version: string): Json {
  const { paths = {}, components: generated = {} } = generateOpenApiDocument(appRouter, {
    title: "",
    version: "",
    baseUrl: "/",
  }) as unknown as {
    paths?: Record<string, Record<string, Json>>;
    components?: { schemas?: Record<string, Json> };
  };
  for (const { template, operations } of ROUTES) {
    for (const operation of operations.values()) {
      const described = paths[template]?.[operation.method.toLowerCase()];
      if (!described) throw new Error(`${operation.name} is missing from the generated document`);
      complete(described, operation);
    }
  }
  const formInput = takeFormInput(paths);
  const schemas = Object.fromEntries(
    Object.entries(generated.schemas ?? {}).filter(([name]) => !name.startsWith("error.")),
  );
  return {
    openapi: "3.1.0",
    info: {
      title: "Guest forms API",
      version,
      summary: "Guest-registration forms on the listings of short-let hosts.",
      description: `${PROSE}\n\n${readGuides()}`,
      contact: { name: "The operator of this service" },
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [
      {
        url: "/",
        description: "The server that this document came from, local or production.",
        "x-internal": false,
      },
    ],
    security: [{ bearer: [] }, { apiKey: [] }],
    tags: [
      { name: "Forms", description: "Guest-registration forms: create, update, list and fetch." },
      { name: "Listings", description: "The listings in the key's scope: list and fetch." },
    ],
    paths: tidy(paths),
    components: {
      ...components({ ...(tidy(schemas) as Record<string, Json>), FormInput: formInput }),
      responses: responseComponents(),
    },
  };
}

/** The document as it is served and committed. */
export const printDocument = (document: Json): string => `${JSON.stringify(document, null, 2)}\n`;

/** Create and update take one body: named, and closed, for unknown properties are refused. */
function takeFormInput(paths: Record<string, Record<string, Json>>): Json {
  let input: Json = {};
  for (const described of Object.values(paths).flatMap((path) => Object.values(path))) {
    const { content } = (described.requestBody ?? {}) as { content?: Record<string, Json> };
    const json = content?.["application/json"];
    if (!json) continue;
    input = { ...(json.schema as Json), description: "What a create or update says of a stay." };
    json.schema = { $ref: "#/components/schemas/FormInput" };
  }
  return { ...(tidy(input) as Json), additionalProperties: false };
}

interface Parameter {
  in: string;
  name: string;
  description?: string;
  schema: Json;
}

/** Adds to a generated operation what the generator cannot know. */
function complete(described: Json, operation: Operation): void {
  const { operationId } = described;
  described.description = OPERATION_PROSE[operation.name];
  // The document's own `security` holds for all.
  delete described.security;
  const [success] = Object.values(described.responses as Record<string, { content: Json }>);
  described.responses = {
    [operation.method === "POST" ? "201" : "200"]: {
      description: SUCCESS_PROSE[operation.name] ?? "OK",
      headers: headerRefs(operation.method === "POST" ? CREATED_HEADERS : SUCCESS_HEADERS),
      content: success?.content,
    },
    ...errorResponses([...operation.codes, ...COMMON], operation.writes),
  };
  described["x-codeSamples"] = codeSamples(operation.name);
  const fields = z.toJSONSchema(operation.input, { io: "input" }).properties as Record<string, Json>;
  for (const parameter of (described.parameters ?? []) as Parameter[]) {
    const { description, default: fallback } = fields[parameter.name] ?? {};
    if (description) parameter.description = String(description);
    if (fallback !== undefined) parameter.schema.default = fallback;
    // Said once, beside the schema.
    delete parameter.schema.description;
    if (parameter.in === "path") {
      parameter.description ??= `Id of the ${String(operationId).endsWith("Form") ? "form" : "listing"}, a UUID.`;
    }
  }
}

const SUCCESS_HEADERS = ["X-Correlation-Id", "RateLimit", "RateLimit-Policy"];
const CREATED_HEADERS = ["Location", "Idempotent-Replayed", ...SUCCESS_HEADERS];

/**
 * Generated schemas as clients want them: null as one more type, no patterns beside formats that say the same,
 * responses open to new fields and new enumerated values, nullable response fields not required (the interface's tables).
 */
function tidy(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(tidy);
  if (typeof part !== "object" || part === null) return part;
  let schema = Object.fromEntries(Object.entries(part).map(([name, inner]) => [name, tidy(inner)])) as Json;
  const either = schema.anyOf as Json[] | undefined;
  if (either?.length === 2 && either[1]?.type === "null" && typeof either[0]?.type === "string") {
    const { anyOf: _, ...rest } = schema;
    schema = { ...either[0], ...rest, type: [either[0].type, "null"] };
  }
  if (schema.format === "uuid" || schema.format === "email") delete schema.pattern;
  if (schema.format === "uuid") schema.maxLength = 36;
  // Only what answers is marked closed by the generator; requests are closed by their schema, which refuses others.
  if (schema.additionalProperties === false) {
    delete schema.additionalProperties;
    const properties = schema.properties as Record<string, Json>;
    schema.required = (schema.required as string[]).filter((name) => !allowsNull(properties[name]));
  }
  if (Array.isArray(schema.enum) && !schema.anyOf) {
    const { type, enum: values, ...rest } = schema;
    schema = {
      ...rest,
      anyOf: [
        { type, enum: values },
        { type, ...NEW_VALUE },
      ],
    };
  }
  return schema;
}

/** What enumerated values of later versions will look like. */
const NEW_VALUE = { pattern: "^[A-Z_]{1,32}$", maxLength: 32 };

const allowsNull = (schema: Json | undefined) => Array.isArray(schema?.type) && schema.type.includes("null");

const SUCCESS_PROSE: Record<string, string> = {
  "forms.create": "The created form, or the form of an earlier equal request where this call is a replay.",
  "forms.update": "The updated form.",
  "forms.list": "A page of forms.",
  "forms.get": "The form.",
  "listings.list": "A page of listings.",
  "listings.get": "The listing.",
};

const OPERATION_PROSE: Record<string, string> = {
  "forms.create":
    "Creates a form on a listing in scope. Needs a read-write key. An equal body never creates a second form and " +
    "never notifies twice: the original answer is replayed, with `Idempotent-Replayed: true`.",
  "forms.update":
    "Replaces the stay of a form; with another `listingId` it moves the form there. Needs a read-write key, and both " +
    "listings in scope. The status stays as it is.",
  "forms.list": "Forms on the listings in scope, ordered by (createdAt, id), oldest first.",
  "forms.get": "A form by its id. Out of scope and missing are the same 404.",
  "listings.list": "The listings in scope, ordered by (createdAt, id), oldest first.",
  "listings.get": "A listing by its id. Out of scope and missing are the same 404.",
};
