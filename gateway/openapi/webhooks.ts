import { createSchema } from "zod-openapi";
import { EVENTS } from "../../server/webhooks/event-schema.js";
import { exampleOf, type Json, type Schema } from "./read.js";
import { tidyResponse } from "./tidy.js";

export const WEBHOOKS_TAG = {
  name: "Webhooks",
  description:
    "Requests that this service sends to your endpoint when a form changes: one POST per event, signed as in Standard Webhooks. " +
    "An event can arrive more than once, and in any order.",
};

const HEADERS: Record<string, Json> = {
  "webhook-id": {
    description:
      "Unique id of this message, the same for every attempt. Ignore a request whose id you have already processed.",
    schema: { type: "string", format: "uuid", maxLength: 36 },
    example: "5f0d0a3c-7b1e-4f0e-9a61-0d3c0b8e2a17",
  },
  "webhook-timestamp": {
    description: "When this attempt was sent, in seconds since 1970. Reject a request that is more than 5 minutes old.",
    schema: { type: "integer", format: "int64", minimum: 0, maximum: 253_402_300_799 },
    example: 1_795_256_131,
  },
  "webhook-signature": {
    description:
      "Signatures separated by spaces, one per valid secret of the endpoint. Each is `v1,` and the Base64 of the HMAC-SHA-256 of " +
      "`{webhook-id}.{webhook-timestamp}.{body}`. Verify it with the body as received, before parsing it.",
    schema: { type: "string", pattern: "^v1,[A-Za-z0-9+/]{43}=( v1,[A-Za-z0-9+/]{43}=)*$", maxLength: 512 },
    example: "v1,Zbz4bFvEnhfbJEGvN0WT5yEhH8nKxrKI8nLRoE2qQhE=",
  },
};

/** Headers of every webhook request, as components. */
export const webhookHeaders: Record<string, Json> = Object.fromEntries(
  Object.entries(HEADERS).map(([name, header]) => [name, { name, in: "header", required: true, ...header }]),
);

const parameters = Object.keys(webhookHeaders).map((name) => ({ $ref: `#/components/parameters/${name}` }));

const responses = {
  "2XX": { description: "Received, if it arrives within 10 seconds. Store what takes longer as a job." },
  410: { description: "Gone: disables the endpoint." },
  default: {
    description: "Failed: the request is sent again, with growing delays, for three days. Redirects are not followed.",
  },
};

/** The schemas of the events, which refer to those of `schemas`. */
export function eventSchemas(schemas: Readonly<Record<string, Schema>>): Record<string, Schema> {
  const found: Record<string, Schema> = {};
  for (const event of EVENTS) {
    for (const [name, schema] of Object.entries(createSchema(event, { io: "output" }).components)) {
      if (!(name in schemas)) found[name] = tidyResponse(schema);
    }
  }
  return found;
}

/** The `webhooks` of the document, by type of event. */
export function webhooks(schemas: Record<string, Schema>): Json {
  return Object.fromEntries(
    EVENTS.map((event) => {
      const type = event.shape.type.value;
      const { id = "", description = "" } = event.meta() ?? {};
      const schema: Schema = { $ref: `#/components/schemas/${id}` };
      const example = exampleOf(schema, schemas, FORM_EXAMPLES[type] ?? {});
      const post = {
        operationId: operationId(id),
        summary: type,
        description,
        tags: [WEBHOOKS_TAG.name],
        security: [],
        parameters,
        requestBody: { required: true, content: { "application/json": { schema, example } } },
        responses,
      };
      return [type, { post }];
    }),
  );
}

/** Fields of an event's example form that differ from the examples of the fields. */
const FORM_EXAMPLES: Partial<Record<string, Json>> = {
  "form.status_changed": { status: "COMPLETED" },
  "form.cancelled": { status: "CANCELLED" },
  "form.party_changed": { numberOfPets: 1 },
};

/** `FormCreatedEvent` to `formCreated`. */
const operationId = (name: string) => name.replace(/^./, (letter) => letter.toLowerCase()).replace(/Event$/, "");
