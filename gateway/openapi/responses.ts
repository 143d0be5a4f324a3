import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { EXAMPLE_FORM_ID } from "../../server/constants.js";
import { ERRORS, type ErrorCode } from "../../server/errors.js";
import { OPERATIONS, type Operation } from "../operations/operations.js";
import { headerRefs } from "./parts.js";
import type { Json } from "./read.js";

/** Codes that any operation can return. */
export const COMMON_CODES: readonly ErrorCode[] = ["UNAUTHENTICATED", "RATE_LIMITED", "INTERNAL_ERROR"];

/** The error codes of one status of an operation. */
interface ErrorResponse {
  status: number;
  codes: ErrorCode[];
  hasBody: boolean;
}

function errorsOf(operation: Operation): ErrorResponse[] {
  const hasBody = operation.inputSource === "body";
  const responses = new Map<number, ErrorResponse>();
  const add = (status: number, code: ErrorCode) => {
    const response = responses.get(status) ?? { status, codes: [], hasBody };
    response.codes.push(code);
    responses.set(status, response);
  };
  for (const code of [...operation.codes, ...COMMON_CODES]) add(ERRORS[code].status, code);
  if (hasBody) add(415, "VALIDATION_ERROR");
  add(503, "INTERNAL_ERROR");
  return [...responses.values()];
}

/** The error responses of an operation, each a reference to a component, with the operation's own description if it has one. */
export const errorResponses = (operation: Operation): Record<string, Json> =>
  Object.fromEntries(
    errorsOf(operation).map((response) => {
      const description = ownDescription(operation, response);
      const $ref = `#/components/responses/${nameOf(response)}`;
      return [String(response.status), description ? { $ref, description } : { $ref }];
    }),
  );

const ownDescription = ({ when }: Operation, { status, codes }: ErrorResponse) =>
  codes
    .filter((code) => when[code] !== undefined && status === ERRORS[code].status)
    .map((code) => `\`${code}\`: ${when[code]}`)
    .join(" ");

/** The components that `errorResponses` refers to, sorted by status. */
export function responseComponents(): Record<string, Json> {
  const all = OPERATIONS.flatMap(errorsOf).map((response) => [nameOf(response), response] as const);
  const sorted = all.sort(([a, { status }], [b, other]) => status - other.status || a.localeCompare(b));
  return Object.fromEntries(sorted.map(([name, response]) => [name, describe(response)]));
}

/** Component names, if not made from the codes. */
const NAMES: Record<string, string> = {
  "400 VALIDATION_ERROR": "InvalidParameters",
  "400 INVALID_CURSOR VALIDATION_ERROR": "InvalidQuery",
  "404 RESOURCE_NOT_FOUND": "NotFound",
  "415 VALIDATION_ERROR": "UnsupportedMediaType",
  "503 INTERNAL_ERROR": "Unavailable",
};

function nameOf({ status, codes, hasBody }: ErrorResponse): string {
  const key = [status, ...codes.toSorted()].join(" ");
  if (hasBody && key === "400 VALIDATION_ERROR") return "InvalidBody";
  return NAMES[key] ?? codes.toSorted().map(pascalCase).join("Or");
}

const pascalCase = (code: string) =>
  code.toLowerCase().replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());

function describe(response: ErrorResponse): Json {
  const { status, codes } = response;
  const messageOf = (code: ErrorCode) =>
    status === 503 ? "The service is briefly unavailable." : ERRORS[code].message;
  // The message of a 401 says which of these it is.
  const descriptionOf = (code: ErrorCode) => (code === "UNAUTHENTICATED" ? ERRORS[code].condition : messageOf(code));
  const example = (code: ErrorCode): Json => ({
    code,
    message: messageOf(code),
    correlationId: "0d2f9c1a-4c0e-4d64-9a52-0c5b8d9a8b1f",
    ...(code === "VALIDATION_ERROR" && { errors: [exampleFieldError(response)] }),
  });
  return {
    description: codes.map((code) => `\`${code}\`: ${descriptionOf(code)}`).join(" Or "),
    headers: {
      ...headerRefs(["X-Correlation-Id", ...headersOf(status)]),
      ...(status === 422 && { Location: ORIGINAL }),
    },
    content: {
      "application/json": {
        schema: { $ref: "#/components/schemas/ErrorEnvelope" },
        examples: Object.fromEntries(codes.map((code) => [code, { value: example(code) }])),
      },
    },
  };
}

function exampleFieldError({ status, hasBody }: ErrorResponse): Json {
  if (status === 415) return { field: "Content-Type", issue: "must be application/json, in UTF-8" };
  if (hasBody) return { field: "checkOutDate", issue: "must be after checkInDate" };
  return { field: "limit", issue: "must be an integer" };
}

const RATE_LIMIT_HEADERS = ["RateLimit", "RateLimit-Policy"];

/** Of a 422. */
const ORIGINAL: Json = {
  description: "Path of the form that the key belongs to, if it is in the key's scope.",
  schema: { type: "string", format: "uri-reference", maxLength: `/v1/forms/${EXAMPLE_FORM_ID}`.length },
  example: `/v1/forms/${EXAMPLE_FORM_ID}`,
};

function headersOf(status: number): string[] {
  if (status === 401) return ["WWW-Authenticate"];
  if (status === 503) return ["Retry-After"];
  return status === 429 ? ["Retry-After", ...RATE_LIMIT_HEADERS] : RATE_LIMIT_HEADERS;
}

/** The generated success response of an operation, with its real status and headers. */
export function successResponse(operation: Operation, generated: Json): Record<string, Json> {
  const { description, content } = generated;
  const own = Object.entries(successHeaders(operation)).map(([name, header]) => {
    const isShared = isDeepStrictEqual(COMPONENTS[name], header);
    return [name, isShared ? { $ref: `#/components/headers/${name}` } : header];
  });
  const headers = { ...Object.fromEntries(own), ...headerRefs(COMMON) };
  return { [operation.status]: { description, headers, ...(operation.status !== 204 && { content }) } };
}

const COMMON = ["X-Correlation-Id", "RateLimit", "RateLimit-Policy"];

/** The headers of an operation's success response, without those that every response has. */
function successHeaders({ location, responseHeaders }: Operation): Record<string, Json> {
  const declared = Object.entries(responseHeaders).map(([name, schema]) => {
    const { $schema: _, description, example, ...json } = z.toJSONSchema(schema);
    const required = !z.safeParse(schema, undefined).success;
    const header = { description, ...(required && { required }), schema: json };
    return [name, example === undefined ? header : { ...header, example }] as const;
  });
  return { ...(location && { Location: locationHeader(location) }), ...Object.fromEntries(declared) };
}

function locationHeader(template: string): Json {
  const example = template.replace(/\{\w+\}/g, EXAMPLE_FORM_ID);
  return {
    description: "Path of the resource.",
    required: true,
    schema: { type: "string", format: "uri-reference", maxLength: example.length },
    example,
  };
}

/** One header per name, the first one declared. A different header of the same name stays inline in its operation. */
const COMPONENTS: Record<string, Json> = {};
for (const operation of OPERATIONS) {
  for (const [name, header] of Object.entries(successHeaders(operation))) COMPONENTS[name] ??= header;
}

/** The header components of the operations. */
export const headerComponents: Readonly<Record<string, Json>> = COMPONENTS;
