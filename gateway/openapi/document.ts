import { generateOpenApiDocument } from "trpc-to-openapi";
import { appRouter } from "../../server/router.js";
import { OPERATIONS, type Operation } from "../operations/operations.js";
import { components, PROSE, SUMMARY } from "./parts.js";
import { exampleOf, type Json, type Parameter, type Response, type Schema } from "./read.js";
import { errorResponses, headerComponents, responseComponents, successResponse } from "./responses.js";
import { codeSamples, exampleRequest } from "./samples.js";
import { tidyRequest, tidyResponse } from "./tidy.js";
import { eventSchemas, WEBHOOKS_TAG, webhookHeaders, webhooks } from "./webhooks.js";

/**
 * The OpenAPI 3.1 document. trpc-to-openapi generates paths, parameters and schemas from the router. Responses, headers and
 * samples come from the procedures' meta and the error table, webhooks from the schemas of the events.
 */
export function buildDocument(version: string): Json {
  const generated = generateOpenApiDocument(appRouter, { title: "", version: "", baseUrl: "/" });
  const paths = generated.paths as Record<string, Record<string, GeneratedOperation>>;
  const schemas: Record<string, Schema> = {};
  for (const [name, schema] of Object.entries(generated.components?.schemas ?? {})) {
    // The generator's own error schemas, which are never sent.
    if (!name.startsWith("error.")) schemas[name] = tidyResponse(schema);
  }
  for (const operation of OPERATIONS) {
    const target = paths[operation.path]?.[operation.verb];
    if (!target) throw new Error(`${operation.name} is missing from the generated document`);
    complete(target, operation, schemas);
  }
  Object.assign(schemas, eventSchemas(schemas));
  return {
    openapi: "3.1.0",
    info: {
      title: "Guest forms API",
      version,
      summary: SUMMARY,
      description: `${SUMMARY}\n\n${PROSE}\n\nGuides are served at \`/docs\`. Their Markdown is listed in \`/llms.txt\`.`,
      contact: { name: "The operator of this service" },
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [
      {
        url: "/",
        description: "The server that this document was fetched from, local or production.",
        "x-internal": false,
      },
    ],
    security: [{ bearer: [] }, { apiKey: [] }],
    tags: [
      { name: "Forms", description: "Create, update, list and fetch guest-registration forms." },
      { name: "Listings", description: "List and fetch the listings in the key's scope." },
      WEBHOOKS_TAG,
    ],
    paths,
    webhooks: webhooks(schemas),
    components: {
      ...components(schemas, headerComponents),
      parameters: webhookHeaders,
      responses: responseComponents(),
    },
  };
}

/** The document as it is served and committed. */
export const printDocument = (document: Json): string => `${JSON.stringify(document, null, 2)}\n`;

/** An operation of the generated document. */
interface GeneratedOperation extends Json {
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, Json>;
}

/** Completes a generated operation. */
function complete(generated: GeneratedOperation, operation: Operation, schemas: Record<string, Schema>): void {
  // The `security` of the document applies to all operations.
  delete generated.security;
  for (const parameter of generated.parameters ?? []) completeParameter(parameter, operation);
  const body = generated.requestBody?.content["application/json"];
  if (body) body.schema = nameBody(tidyRequest(body.schema), operation, schemas);
  // The generator always uses 200 for success.
  const success = tidyResponse(generated.responses["200"] ?? {});
  addExample(success, operation, schemas);
  generated.responses = {
    ...successResponse(operation, success),
    ...errorResponses(operation),
  };
  generated["x-codeSamples"] = codeSamples(operation);
}

/** Adds an example response that matches the request of the code samples. */
function addExample(success: Json, operation: Operation, schemas: Record<string, Schema>): void {
  const { "application/json": json } = success.content as NonNullable<Response["content"]>;
  const example = json && exampleOf(json.schema, schemas, exampleRequest(operation).input);
  if (json && example !== undefined) json.example = example;
}

function completeParameter(parameter: Parameter, { fields }: Operation): void {
  const { description, default: fallback } = fields.get(parameter.name) ?? {};
  parameter.schema = tidyRequest(parameter.schema);
  if (description) parameter.description = description;
  if (fallback !== undefined) parameter.schema.default = fallback;
  // The parameter itself has the description.
  delete parameter.schema.description;
}

/** Moves a body's schema with a title to a component of that name. */
function nameBody(
  { title, ...body }: Schema,
  { rejectsUnknownFields }: Operation,
  schemas: Record<string, Schema>,
): Schema {
  const schema = rejectsUnknownFields ? { ...body, additionalProperties: false } : body;
  if (title === undefined) return schema;
  schemas[title] = schema;
  return { $ref: `#/components/schemas/${title}` };
}
