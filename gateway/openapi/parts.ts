import { ERRORS } from "../../server/errors.js";
import type { Json, Schema } from "./read.js";

export const SUMMARY = "Register the guests of short-term rentals: one form per stay.";

/** The introduction of the reference. */
export const PROSE = `- **Scope.** A key has access to the listings on which its holder is an owner or writer, and to their forms. Everything else behaves as if it did not exist.
- **Safe retries.** Creating a form is idempotent: repeat a request whenever you missed the response, and you get the original form.
- **Errors** have one envelope. Branch on \`code\`, never on \`message\`. Quote \`correlationId\` when you contact the operator.
- **Versioning.** New fields and new enumerated values may be added within \`/v1\`: ignore what you do not know.`;

const HEADERS: Record<string, Json> = {
  "X-Correlation-Id": {
    description: "Unique id of this response. Quote it when you contact the operator.",
    required: true,
    schema: { type: "string", format: "uuid", maxLength: 36 },
    example: "0d2f9c1a-4c0e-4d64-9a52-0c5b8d9a8b1f",
  },
  RateLimit: {
    description: "Remaining quota of the key: `r` requests, `t` seconds until the window resets (IETF draft 8).",
    schema: { type: "string", pattern: '^"[^"]+"; r=[0-9]+; t=[0-9]+$', maxLength: 100 },
    example: '"600-in-1min"; r=598; t=41',
  },
  "RateLimit-Policy": {
    description: "Quota of the key: `q` requests per window of `w` seconds (IETF draft 8).",
    schema: {
      type: "string",
      pattern: '^"[^"]+"; q=[0-9]+; w=[0-9]+; pk=:[A-Za-z0-9+/=]+:$',
      maxLength: 200,
    },
    example: '"600-in-1min"; q=600; w=60; pk=:NGIyY2YyNmIzMTVk:',
  },
  "Retry-After": {
    description: "Seconds to wait before the next attempt; at least 1.",
    required: true,
    schema: { type: "integer", format: "int32", minimum: 1, maximum: 86_400 },
    example: 17,
  },
  "WWW-Authenticate": {
    description: "The authentication scheme.",
    required: true,
    schema: { type: "string", const: "Bearer" },
    example: "Bearer",
  },
};

/** References to header components, by name. */
export const headerRefs = (names: readonly string[]): Json =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

/** No control characters. */
const LINE = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$";

const FIELD_ERROR: Json = {
  type: "object",
  description: "One rejected field.",
  required: ["field", "issue"],
  properties: {
    field: {
      type: "string",
      description: "The rejected field, query parameter or header.",
      example: "checkOutDate",
    },
    issue: {
      type: "string",
      description: "What is wrong with it, in one line. The text may change.",
      pattern: LINE,
      maxLength: 500,
      example: "must be after checkInDate",
    },
  },
};

const ERROR_ENVELOPE: Json = {
  type: "object",
  description: "The envelope of every error response.",
  required: ["code", "message", "correlationId"],
  properties: {
    code: {
      description:
        "Stable: branch on it. New codes may be added. `/docs/errors` has a section per code, such as `/docs/errors#rate_limited`.",
      anyOf: [
        { type: "string", enum: Object.keys(ERRORS) },
        { type: "string", pattern: "^[A-Z_]{1,64}$", maxLength: 64 },
      ],
      example: "VALIDATION_ERROR",
    },
    message: {
      type: "string",
      description: "One line for humans. The text may change.",
      pattern: LINE,
      maxLength: 500,
      example: ERRORS.VALIDATION_ERROR.message,
    },
    correlationId: {
      type: "string",
      format: "uuid",
      maxLength: 36,
      description: "Unique id of this response. Quote it when you contact the operator.",
      example: "0d2f9c1a-4c0e-4d64-9a52-0c5b8d9a8b1f",
    },
    errors: {
      type: "array",
      description: "The rejected fields. Only present for VALIDATION_ERROR.",
      items: { $ref: "#/components/schemas/FieldError" },
    },
  },
};

/** The components: generated schemas, and hand-written ones. */
export const components = (schemas: Record<string, Schema>, headers: Record<string, Json>): Json => ({
  schemas: { ...schemas, ErrorEnvelope: ERROR_ENVELOPE, FieldError: FIELD_ERROR },
  headers: { ...HEADERS, ...headers },
  securitySchemes: {
    bearer: { type: "http", scheme: "bearer", description: "The key, sent as `Authorization: Bearer grf_…`" },
    apiKey: {
      type: "apiKey",
      in: "header",
      name: "X-API-Key",
      description: "The key, sent as `X-API-Key: grf_…`",
    },
  },
});
